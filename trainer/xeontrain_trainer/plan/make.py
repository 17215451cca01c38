"""Puts layout and environment together."""

from __future__ import annotations

from collections.abc import Sequence

from ..machine import Machine, format_cpus
from .environment import comm_threads, effective, rank_environment
from .layout import (
    Core,
    PlanError,
    Slice,
    auto_ranks,
    compute_cores,
    cut,
    is_bound,
    too_many_ranks,
    usable_cpus,
)
from .model import Plan, PlanRequest, RankPlan
from .own_values import check_request, own_value_warnings


def make_plan(machine: Machine, request: PlanRequest) -> Plan:
    """The layout of `request.ranks` ranks (None: as many as `auto_ranks` says) on the machine.

    Raises PlanError where there are more ranks than cores that may be used, and for an interface or, with
    oneCCL asked for, a CPU that is not there.
    """
    check_request(request, cpus=machine.numbers)
    limit, pinning = request.cpu_limit_millis, request.pinning
    ranks = request.ranks or auto_ranks(machine, cpu_limit_millis=limit, pinning=pinning)
    if is_bound(machine, cpu_limit_millis=limit, pinning=pinning):
        return _bound(machine, request, ranks=ranks)
    return _unbound(machine, request, ranks=ranks)


def _bound(machine: Machine, request: PlanRequest, *, ranks: int) -> Plan:
    communicates = request.workers * ranks > 1
    slices, left = cut(machine, ranks=ranks, comm_threads=comm_threads(request), communicates=communicates)
    used = {cpu for part in slices for cpu in (*part.compute, *part.comm)}
    warnings = [*_left_out(machine, left, ranks=ranks), *_mixed(machine, slices)]
    if any(len(part.nodes) > 1 for part in slices):
        warnings.append("there are fewer ranks than NUMA nodes: a rank's memory is spread over several nodes")
    if communicates and not slices[0].comm:
        warnings.append("no core is spare for communication: its threads share the compute CPUs and yield")
    return _plan(
        machine,
        request,
        slices=slices,
        threads=len(slices[0].compute),
        idle=tuple(number for number in machine.numbers if number not in used),
        warnings=warnings,
    )


def _left_out(machine: Machine, left: Sequence[Core], *, ranks: int) -> list[str]:
    """Sentences about the cores that no rank computes or communicates on."""
    chosen = {core[0].number for core in compute_cores(machine, ranks=ranks)}
    uneven = [core for core in left if core[0].number in chosen]
    slower = [core for core in left if core[0].number not in chosen]
    warnings = []
    if uneven:
        warnings.append(
            f"cores left over by equal slices: {len(uneven)} of {len(machine.cores)} (CPUs {_cpus(uneven)})"
        )
    if slower:
        warnings.append(
            f"the {len(slower)} slower cores of this hybrid machine are left out, since the fast ones would "
            f"wait for them (CPUs {_cpus(slower)})"
        )
    return warnings


def _cpus(cores: Sequence[Core]) -> str:
    return format_cpus(cpu.number for core in cores for cpu in core)


def _mixed(machine: Machine, slices: Sequence[Slice]) -> list[str]:
    """A sentence where a rank computes on both kinds of a hybrid machine's cores."""
    slower = {cpu.number for cpu in machine.cpus if cpu.efficient}
    if all(slower.isdisjoint(part.compute) or slower.issuperset(part.compute) for part in slices):
        return []
    return ["ranks compute on fast and slower cores of this hybrid machine: the slower ones set the pace"]


def _unbound(machine: Machine, request: PlanRequest, *, ranks: int) -> Plan:
    """Threads are counted by what the pod may use, and the scheduler places them."""
    usable = usable_cpus(machine, cpu_limit_millis=request.cpu_limit_millis)
    cores = min(len(machine.cores), usable)
    if ranks > cores:
        raise PlanError(too_many_ranks(ranks, cores=cores))
    warnings = _throttled(machine, request)
    if request.pinning != "Disabled":
        warnings.append(
            f"the pod may use {usable} of the {len(machine.cpus)} CPUs it sees, so they are shared: "
            "ranks are not pinned"
        )
    return _plan(
        machine,
        request,
        slices=[Slice(compute=machine.numbers, comm=(), nodes=())] * ranks,
        threads=cores // ranks,
        idle=(),
        warnings=warnings,
        bound=False,
    )


def _throttled(machine: Machine, request: PlanRequest) -> list[str]:
    """A sentence where the CFS quota is below what the job asked for."""
    quota, limit = machine.quota_cpus, (request.cpu_limit_millis or 0) / 1000
    if quota is None or quota >= min(limit, len(machine.cpus)) - 1e-6:
        return []
    return [
        f"a CFS quota of {quota:g} CPUs is below spec.resources.cpu ({limit:g}): the kernel stops the pod's "
        "threads in each period once they have used it. Whoever runs the node has set it"
    ]


def _plan(
    machine: Machine,
    request: PlanRequest,
    *,
    slices: Sequence[Slice],
    threads: int,
    idle: tuple[int, ...],
    warnings: list[str],
    bound: bool = True,
) -> Plan:
    wanted = [
        rank_environment(request, slices=slices, local_rank=rank, threads=threads, bound=bound)
        for rank in range(len(slices))
    ]
    own = own_value_warnings(request, wanted=wanted[0], cpus=machine.numbers, ranks=len(slices))
    warnings = [*warnings, *own]
    if not request.interface and request.workers > 1:
        warnings.append("no network interface carries the pod's address: the libraries choose one themselves")
    return Plan(
        ranks=tuple(
            RankPlan(
                local_rank=rank,
                compute_cpus=part.compute,
                threads=threads,
                comm_cpus=part.comm,
                nodes=part.nodes if set(part.nodes) <= set(machine.memory_nodes) else (),
                environment=effective(request, wanted=wanted[rank]),
            )
            for rank, part in enumerate(slices)
        ),
        cpus=machine.numbers,
        idle_cpus=idle,
        bound=bound,
        warnings=tuple(warnings),
    )
