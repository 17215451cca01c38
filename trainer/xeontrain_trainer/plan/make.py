"""Puts layout and environment together."""

from __future__ import annotations

from collections.abc import Sequence

from ..machine import Machine, format_cpus
from .environment import comm_threads, effective, rank_environment, user_warnings
from .layout import PlanError, Slice, auto_ranks, cut, is_bound, too_many_ranks, usable_cpus
from .model import Plan, PlanRequest, RankPlan


def make_plan(machine: Machine, request: PlanRequest) -> Plan:
    """The layout of `request.ranks` ranks (None: as many as `auto_ranks` says) on the machine.

    Raises PlanError where there are more ranks than cores that may be used.
    """
    limit, pinning = request.cpu_limit_millis, request.pinning
    ranks = request.ranks or auto_ranks(machine, cpu_limit_millis=limit, pinning=pinning)
    if is_bound(machine, cpu_limit_millis=limit, pinning=pinning):
        return _bound(machine, request, ranks=ranks)
    return _unbound(machine, request, ranks=ranks)


def _bound(machine: Machine, request: PlanRequest, *, ranks: int) -> Plan:
    communicates = request.workers * ranks > 1
    slices, left = cut(machine, ranks=ranks, comm_threads=comm_threads(request), communicates=communicates)
    used = {cpu for part in slices for cpu in (*part.compute, *part.comm)}
    warnings = []
    if left:
        cpus = format_cpus(cpu.number for core in left for cpu in core)
        warnings.append(f"cores left over by equal slices: {len(left)} of {len(machine.cores)} (CPUs {cpus})")
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


def _unbound(machine: Machine, request: PlanRequest, *, ranks: int) -> Plan:
    """Threads are counted by what the pod may use, and the scheduler places them."""
    cores = min(len(machine.cores), usable_cpus(machine, cpu_limit_millis=request.cpu_limit_millis))
    if ranks > cores:
        raise PlanError(too_many_ranks(ranks, cores=cores))
    warnings = []
    if request.pinning != "Disabled":
        warnings.append(
            f"the pod may use {cores} of the {len(machine.cpus)} CPUs it sees, so they are shared: "
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
    warnings = [*warnings, *user_warnings(request, wanted=wanted[0], cpus=machine.numbers)]
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
