"""The threads of running ranks, put on the CPUs that the plan has for them. Standard library only.

Affinity is inherited, and that is not enough. Libraries make their communication threads from the main
thread, so that these compute with it (and under GOMP_CPU_AFFINITY all sit on the first compute CPU); some
libraries set the mask of all of a process's threads to every CPU that they see; and a kernel before 6.2
forgets all masks when a CPU set changes. So threads are looked at from outside and moved:

- those that carry a communication thread's name, to the rank's communication CPUs;
- those that may run on another rank's CPUs, or anywhere, back to the rank's compute CPUs;
- those of a child process (a DataLoader's worker) that inherited a mask narrower than the rank's from a
  parent that OpenMP has bound, to all of the rank's compute CPUs.

Any other mask is somebody's choice and stays: OpenMP's own binding, a worker that a script pins to idle CPUs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Optional

from .plan import Plan

# As `/proc/<pid>/task/<tid>/comm` shows them: gloo's and torch's ProcessGroupGloo's, and the TCPStore's.
COMMUNICATION_NAMES = ("gloo_", "pt_gloo", "pt_tcpstore")
COMMUNICATION = "communication"
COMPUTE = "compute"
# A new thread has its maker's name for a moment. Later nobody gives it another.
LOOKS_AT_A_NAME = 3
_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Home:
    """The CPUs of one rank. `others`: those of the other ranks that are not its own. `granted`: all that the
    pod has."""

    compute: frozenset[int]
    comm: frozenset[int]
    others: frozenset[int]
    granted: frozenset[int]

    def wanted(self, mask: frozenset[int], *, name: str) -> Optional[frozenset[int]]:
        """Where a thread of this name and mask belongs; None where it may stay."""
        if self.comm and name.startswith(COMMUNICATION_NAMES):
            return self.comm if mask & self.compute or mask & self.others else None
        strays = mask & self.others or (mask >= self.granted and self.compute < self.granted)
        return self.compute if strays else None


def homes(plan: Plan) -> tuple[Home, ...]:
    """The home of each rank, by local rank."""
    own = [frozenset(rank.compute_cpus) | frozenset(rank.comm_cpus) for rank in plan.ranks]
    everybody = _NONE.union(*own)
    return tuple(
        Home(
            compute=frozenset(rank.compute_cpus),
            comm=frozenset(rank.comm_cpus),
            others=everybody - own[number],
            granted=frozenset(plan.cpus),
        )
        for number, rank in enumerate(plan.ranks)
    )


def is_worth_looking(plan: Plan) -> bool:
    """Whether a thread could be anywhere but where it belongs: ranks are pinned, and not to everything."""
    return plan.bound and any(set(rank.compute_cpus) != set(plan.cpus) for rank in plan.ranks)


@dataclass(frozen=True)
class Moved:
    """Threads of one rank that were moved: `kind` is `communication` or `compute`."""

    local_rank: int
    kind: str
    count: int


class ThreadKeeper:
    """Looks at the threads of ranks, again and again. A look costs one system call a thread, and a small file
    for each that is new."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[str, int]] = {}

    def look(self, plan: Plan, *, parents: Mapping[int, Mapping[int, int]]) -> list[Moved]:
        """Moves what is not where it belongs.

        `parents`: by local rank the parent of each of its live processes, by process id. Threads that end
        meanwhile, or may not be touched, are passed over.
        """
        known, self._names = self._names, {}
        moved: dict[tuple[int, str], int] = {}
        for local_rank, home in enumerate(homes(plan)):
            for kind in self._place(parents.get(local_rank, {}), home=home, known=known):
                moved[local_rank, kind] = moved.get((local_rank, kind), 0) + 1
        return [Moved(rank, kind, count) for (rank, kind), count in sorted(moved.items())]

    def _place(
        self, parents: Mapping[int, int], *, home: Home, known: Mapping[int, tuple[str, int]]
    ) -> Iterator[str]:
        """The kind of each thread that was moved."""
        inherited = {pid: _mask(parent) if parent in parents else _NONE for pid, parent in parents.items()}
        for pid in parents:
            for tid in thread_ids(pid):
                mask, name = _mask(tid), self._name(pid, tid, known=known)
                wanted = home.wanted(mask, name=name)
                if wanted is None and mask == inherited[pid] < home.compute:
                    wanted = home.compute
                if mask and wanted is not None and wanted != mask and _set_mask(tid, wanted):
                    yield COMMUNICATION if wanted is home.comm else COMPUTE

    def _name(self, pid: int, tid: int, *, known: Mapping[int, tuple[str, int]]) -> str:
        name, looks = known.get(tid, ("", 0))
        if looks < LOOKS_AT_A_NAME:
            name, looks = thread_name(pid, tid), looks + 1
        self._names[tid] = (name, looks)
        return name


def thread_ids(pid: int) -> list[int]:
    """The process's threads, none where there is no such process (any more)."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def thread_name(pid: int, tid: int) -> str:
    """What the thread is called, at most 15 characters; empty where it has ended."""
    try:
        with open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
    except OSError:
        return ""


def _mask(tid: int) -> frozenset[int]:
    """Empty where the thread has ended."""
    try:
        return frozenset(os.sched_getaffinity(tid))
    except OSError:
        return _NONE


def _set_mask(tid: int, cpus: frozenset[int]) -> bool:
    """Whether it was done: the thread may have ended, or the CPUs may have left the pod's set."""
    try:
        os.sched_setaffinity(tid, cpus)
    except OSError:
        return False
    return True
