"""The plan as a document for people and programs, and the request that a pod's environment makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from .. import contract
from ..machine import Machine
from .layout import PlanError, agree_ranks, auto_ranks, largest_ranks
from .model import Plan, PlanRequest, RankPlan


def document(plan: Plan, *, machine: Machine, host: Machine) -> dict[str, Any]:
    """The plan and the machine. `host`: the same machine with all its online CPUs.

    Keys: `ranks` (`rank`, `numaNode`: null where it spans several, `computeCpus`, `commCpus`, `env`),
    `unusedCpus`, `warnings`, `machine` (as `Machine.to_json`, and the CPUs of `others`), `bound`: whether
    ranks are pinned; where they are not, each rank's `computeCpus` are all that it may run on.
    """
    granted = set(machine.numbers)
    others = [cpu.to_json() for cpu in host.cpus if cpu.number not in granted]
    return {
        "ranks": [_rank(rank, machine=machine, bound=plan.bound) for rank in plan.ranks],
        "unusedCpus": list(plan.idle_cpus),
        "warnings": list(plan.warnings),
        "machine": {**machine.to_json(), "others": others},
        "bound": plan.bound,
    }


def _rank(rank: RankPlan, *, machine: Machine, bound: bool) -> dict[str, Any]:
    cpus = {*rank.compute_cpus, *rank.comm_cpus}
    nodes = sorted({cpu.node for cpu in machine.cpus if cpu.number in cpus})
    return {
        "rank": rank.local_rank,
        "numaNode": nodes[0] if bound and len(nodes) == 1 else None,
        "computeCpus": list(rank.compute_cpus),
        "commCpus": list(rank.comm_cpus),
        "env": dict(sorted(rank.environment.items())),
    }


def choose_ranks(asked: Optional[int], *, machine: Machine, environ: Mapping[str, str]) -> int:
    """The ranks of this worker, all workers being alike: those asked for, or what Auto comes to. Raises
    PlanError where the machine is too small for those asked for."""
    limit = _number(environ, contract.ENV_CPU_LIMIT_MILLIS)
    if asked is not None:
        most = largest_ranks(machine, cpu_limit_millis=limit)
        if asked > most:
            raise PlanError(
                f"--ranks is {asked}, but the CPUs that may be used are {most} physical "
                f"core{'s' * (most != 1)}: each rank needs one; write at most {most}"
            )
        return asked
    of_job = _number(environ, contract.ENV_RANKS_PER_WORKER)
    if of_job is not None:
        return of_job
    wanted = auto_ranks(machine, cpu_limit_millis=limit, pinning=_pinning(environ))
    return agree_ranks(
        [wanted],
        workers=_number(environ, contract.ENV_WORKERS) or 1,
        global_batch_size=_number(environ, contract.ENV_GLOBAL_BATCH_SIZE),
    )


def request_of(environ: Mapping[str, str], *, ranks: int, **found: Any) -> PlanRequest:
    """The request that the contract's variables make; `found` is what was looked for on the machine."""
    return PlanRequest(
        ranks=ranks,
        workers=_number(environ, contract.ENV_WORKERS) or 1,
        worker=_number(environ, contract.ENV_WORKER) or 0,
        ccl_workers_per_rank=_number(environ, contract.ENV_CCL_WORKERS_PER_RANK),
        cpu_limit_millis=_number(environ, contract.ENV_CPU_LIMIT_MILLIS),
        pinning=_pinning(environ),
        backend=environ.get(contract.ENV_BACKEND, "Auto"),
        environ=environ,
        **found,
    )


def _pinning(environ: Mapping[str, str]) -> str:
    return environ.get(contract.ENV_PINNING, "Preferred")


def _number(environ: Mapping[str, str], name: str) -> Optional[int]:
    """None for Auto, unset, and what is no number, which the launcher would refuse."""
    text = environ.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() else None
