"""Run a block on other CPUs for a while. Standard library only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence


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
