"""The plan of one worker: which CPUs each rank computes on, which it communicates on, and its environment.

A pure function of the machine and the request. Rules (docs: the plan):
one compute CPU a physical core; the CFS quota and the CPU limit respected; equal slices that cross a NUMA node
only where fewer ranks than nodes are asked for; communication threads on sibling threads first, on whole cores
where the slice is large, else on the compute CPUs with a yielding wait; nothing outside the granted set.
Where the granted set is larger than what the pod may use (the shared pool), nothing is pinned: neighbours that
all choose the same CPUs would be worse than the scheduler's choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from .machine import Machine


class PlanError(Exception):
    """The request cannot be met on this machine: a user error, in a sentence that says what to change."""


@dataclass(frozen=True)
class PlanRequest:
    """What the job asks of one worker. None means Auto, or unknown.

    `workers`: pods in the job. `worker`: this one's number. `interface`: the network interface the ranks talk
    over. `environ`: the launcher's own environment, whose values win. `tcmalloc`, `intel_openmp`: absolute paths
    of libraries that exist and are to be preloaded.
    """

    ranks: Optional[int] = None
    workers: int = 1
    worker: int = 0
    ccl_workers_per_rank: Optional[int] = None
    cpu_limit_millis: Optional[int] = None
    pinning: str = "Preferred"
    interface: Optional[str] = None
    environ: Mapping[str, str] = field(default_factory=dict)
    tcmalloc: Optional[str] = None
    intel_openmp: Optional[str] = None


@dataclass(frozen=True)
class RankPlan:
    """One rank's share.

    `compute_cpus`: its affinity (the whole granted set where `Plan.bound` is false). `threads`: compute threads.
    `comm_cpus`: CPUs for communication alone, empty where none is spare. `nodes`: NUMA nodes of its memory.
    """

    local_rank: int
    compute_cpus: tuple[int, ...]
    threads: int
    comm_cpus: tuple[int, ...]
    nodes: tuple[int, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Plan:
    """The layout of one worker. `idle_cpus`: granted CPUs that no rank uses. `bound`: ranks are pinned."""

    ranks: tuple[RankPlan, ...]
    cpus: tuple[int, ...]
    idle_cpus: tuple[int, ...]
    bound: bool
    warnings: tuple[str, ...]

    @property
    def cores_per_rank(self) -> int:
        """Compute threads of each rank (all equal)."""
        return self.ranks[0].threads

    @property
    def comm_cores_per_rank(self) -> int:
        """CPUs kept for communication by each rank (all equal)."""
        return len(self.ranks[0].comm_cpus)

    def to_json(self) -> dict[str, Any]:
        """The plan as plain JSON values: the plan file and `/status`."""
        raise NotImplementedError


def make_plan(machine: Machine, request: PlanRequest) -> Plan:
    """The layout of `request.ranks` ranks (None: as many as `auto_ranks` says) on the machine.

    Raises PlanError where there are more ranks than cores that may be used.
    """
    raise NotImplementedError


def plan_from_json(document: Mapping[str, Any]) -> Plan:
    """The plan that `Plan.to_json` wrote. Raises ValueError on anything else."""
    raise NotImplementedError


def largest_ranks(machine: Machine, *, cpu_limit_millis: Optional[int] = None) -> int:
    """The most ranks this worker can hold: one for each physical core that quota and limit allow."""
    raise NotImplementedError


def auto_ranks(machine: Machine, *, cpu_limit_millis: Optional[int] = None) -> int:
    """Ranks that `Auto` wants here: one for each NUMA node with at least half of the largest node's cores.

    This is the number that a worker reports to the coordinator where `ranksPerWorker` is Auto.
    """
    raise NotImplementedError


def agree_ranks(reported: Iterable[int], *, workers: int, global_batch_size: Optional[int]) -> int:
    """Ranks a worker for all workers: the largest r that no worker is too small for and for which workers x r
    divides the global batch (any r where there is no batch); 1 where none does."""
    raise NotImplementedError
