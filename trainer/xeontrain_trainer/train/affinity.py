"""Where this rank's threads run: a block on other CPUs for a while, or all of them as the plan has it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from ..plan import Plan
from ..threads import ThreadKeeper


@contextlib.contextmanager
def affinity(cpus: Sequence[int]) -> Iterator[None]:
    """Run the block on `cpus`, then go back; without `cpus`, stay. Threads made inside inherit it."""
    before = os.sched_getaffinity(0)
    if cpus:
        os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def place_threads(plan: Plan | None, *, local_rank: int) -> None:
    """Put each thread that this process has by now where the plan wants it: some were made while the block
    above, or a library, had changed the affinity of their maker. Without a plan that pins, nothing."""
    if plan is not None and plan.bound:
        ThreadKeeper().look(plan, parents={local_rank: {os.getpid(): os.getppid()}})
