"""The request for a plan and the plan itself: frozen, and the same again after a trip through JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional


@dataclass(frozen=True)
class PlanRequest:
    """What the job asks of one worker. None means Auto, or unknown.

    `workers`: pods in the job. `worker`: this one's number. `interface`: the network interface the ranks
    talk over. `pod_interface`: the one that carries the pod's address. `interfaces`: all that there are.
    `backend`: Auto, Gloo or CCL. `environ`: the launcher's own environment, whose values win.
    `missing_preloads`: what of its LD_PRELOAD is not there. `tcmalloc`, `intel_openmp`: absolute paths of
    libraries that exist and are to be preloaded.
    """

    ranks: Optional[int] = None
    workers: int = 1
    worker: int = 0
    ccl_workers_per_rank: Optional[int] = None
    cpu_limit_millis: Optional[int] = None
    pinning: str = "Preferred"
    interface: Optional[str] = None
    pod_interface: Optional[str] = None
    interfaces: Optional[tuple[str, ...]] = None
    backend: str = "Auto"
    environ: Mapping[str, str] = field(default_factory=dict)
    missing_preloads: tuple[str, ...] = ()
    tcmalloc: Optional[str] = None
    intel_openmp: Optional[str] = None


@dataclass(frozen=True)
class RankPlan:
    """One rank's share.

    `compute_cpus`: its affinity (the whole granted set where `Plan.bound` is false). `threads`: compute
    threads. `comm_cpus`: CPUs for communication alone, empty where none is spare. `nodes`: NUMA nodes its
    memory is bound to, empty where it is not bound. `environment`: the effective values, those that the user
    set included.
    """

    local_rank: int
    compute_cpus: tuple[int, ...]
    threads: int
    comm_cpus: tuple[int, ...]
    nodes: tuple[int, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Plan:
    """The layout of one worker.

    `cpus`: all that were granted. `idle_cpus`: granted CPUs that no rank uses. `bound`: ranks are pinned.
    `warnings`: sentences for people.
    """

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
        """The plan as plain JSON values: the plan file that the rank shim and the trainer read."""
        return {
            "cpus": list(self.cpus),
            "idleCpus": list(self.idle_cpus),
            "bound": self.bound,
            "warnings": list(self.warnings),
            "ranks": [
                {
                    "localRank": rank.local_rank,
                    "computeCpus": list(rank.compute_cpus),
                    "threads": rank.threads,
                    "commCpus": list(rank.comm_cpus),
                    "nodes": list(rank.nodes),
                    "environment": dict(rank.environment),
                }
                for rank in self.ranks
            ],
        }


def plan_from_json(document: Mapping[str, Any]) -> Plan:
    """The plan that `Plan.to_json` wrote. Raises ValueError on anything else."""
    try:
        return Plan(
            ranks=tuple(_rank_from_json(rank) for rank in document["ranks"]),
            cpus=_numbers(document["cpus"]),
            idle_cpus=_numbers(document["idleCpus"]),
            bound=bool(document["bound"]),
            warnings=tuple(str(warning) for warning in document["warnings"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is not a plan: {type(error).__name__}: {error}") from None


def _rank_from_json(document: Mapping[str, Any]) -> RankPlan:
    return RankPlan(
        local_rank=int(document["localRank"]),
        compute_cpus=_numbers(document["computeCpus"]),
        threads=int(document["threads"]),
        comm_cpus=_numbers(document["commCpus"]),
        nodes=_numbers(document["nodes"]),
        environment={str(name): str(value) for name, value in document["environment"].items()},
    )


def _numbers(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values)
