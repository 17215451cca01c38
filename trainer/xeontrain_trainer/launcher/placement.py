"""Keeps the ranks' threads on the CPUs of the plan, from outside: a user's own script knows of no plan.

The built-in training places its own threads, and for a while uses all of the worker's CPUs on purpose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..machine import format_cpus
from ..plan import Plan
from ..threads import COMMUNICATION, Moved, ThreadKeeper, is_worth_looking
from .layout import Layout, count
from .supervisor import Supervisor

LOOK_SECONDS = 2.0

Say = Callable[[str], None]


class Placement:
    """Looks at the ranks' threads and says what it had to move, once a round, rank and kind."""

    def __init__(self, layout: Layout, *, supervisor: Supervisor, say: Say) -> None:
        self._layout = layout
        self._supervisor = supervisor
        self._say = say
        self._keeper = ThreadKeeper()
        self._told: set[tuple[int, str]] = set()

    async def run(self) -> None:
        """Looks every LOOK_SECONDS, for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Moves what is not where the plan has it."""
        plan = self._layout.plan
        if not self._supervisor.alive:
            self._told.clear()
        elif plan is not None and is_worth_looking(plan):
            for moved in self._keeper.look(plan, parents=self._supervisor.families()):
                self._tell(moved, plan)

    def _tell(self, moved: Moved, plan: Plan) -> None:
        key = (moved.local_rank, moved.kind)
        if key not in self._told:
            self._told.add(key)
            self._say(describe(moved, plan))


def describe(moved: Moved, plan: Plan) -> str:
    """What was moved, in a line."""
    rank = plan.ranks[moved.local_rank]
    if moved.kind == COMMUNICATION:
        cpus = format_cpus(rank.comm_cpus)
        return (
            f"local rank {moved.local_rank}: {count(moved.count, 'communication thread')} put on CPUs {cpus}"
        )
    cpus = format_cpus(rank.compute_cpus)
    return (
        f"local rank {moved.local_rank}: {count(moved.count, 'thread')} that had another affinity than the "
        f"rank's put back on CPUs {cpus}"
    )
