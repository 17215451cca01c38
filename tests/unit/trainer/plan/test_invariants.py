"""What holds for the plan of any machine and any request that can be met."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from xeontrain_trainer.machine import Machine
from xeontrain_trainer.plan import (
    Plan,
    PlanError,
    PlanRequest,
    auto_ranks,
    largest_ranks,
    make_plan,
    plan_from_json,
)

from tests.unit.trainer.machines import machines


@st.composite
def requests(draw: st.DrawFn, machine: Machine) -> PlanRequest:
    """A request that the machine can meet."""
    limit = draw(st.one_of(st.none(), st.integers(1, len(machine.online)).map(lambda cpus: cpus * 1000)))
    most = largest_ranks(machine, cpu_limit_millis=limit)
    return PlanRequest(
        ranks=draw(st.one_of(st.none(), st.integers(1, most))),
        workers=draw(st.integers(1, 4)),
        ccl_workers_per_rank=draw(st.one_of(st.none(), st.integers(1, 6))),
        cpu_limit_millis=limit,
        pinning=draw(st.sampled_from(["Required", "Preferred", "Disabled"])),
    )


cases = machines().flatmap(lambda machine: st.tuples(st.just(machine), requests(machine)))


@given(cases)
@settings(max_examples=100, deadline=None)
def test_any_plan(case: tuple[Machine, PlanRequest]) -> None:
    """Nothing outside the granted set, slices equal, no more threads than cores, quota and limit allow."""
    machine, request = case
    plan = make_plan(machine, request)
    granted = set(machine.numbers)
    assert set(plan.cpus) == granted
    assert len({(rank.threads, len(rank.comm_cpus)) for rank in plan.ranks}) == 1
    threads = sum(rank.threads for rank in plan.ranks)
    assert threads >= len(plan.ranks)
    assert threads <= len(machine.cores)
    if machine.quota_cpus is not None:
        assert threads <= max(1, math.floor(machine.quota_cpus + 1e-6))
    if request.cpu_limit_millis is not None:
        assert threads <= request.cpu_limit_millis // 1000
    for rank in plan.ranks:
        assert set(rank.compute_cpus) | set(rank.comm_cpus) <= granted
        assert set(rank.nodes) <= set(machine.memory_nodes)
    check_ccl(plan, granted)
    assert plan_from_json(json.loads(json.dumps(plan.to_json()))) == plan


def check_ccl(plan: Plan, granted: set[int]) -> None:
    """oneCCL starts only with a list of exactly local ranks x workers CPUs, all of them granted."""
    for rank in plan.ranks:
        environment = rank.environment
        affinity = [int(cpu) for cpu in environment["CCL_WORKER_AFFINITY"].split(",")]
        assert len(affinity) == len(plan.ranks) * int(environment["CCL_WORKER_COUNT"])
        assert set(affinity) <= granted
        assert environment["CCL_LOCAL_RANK"] == str(rank.local_rank)
        assert environment["CCL_LOCAL_SIZE"] == str(len(plan.ranks))
        assert environment["OMP_NUM_THREADS"] == str(rank.threads)
        mine = affinity[rank.local_rank * (len(affinity) // len(plan.ranks)) :][: len(rank.comm_cpus)]
        assert set(mine) <= set(rank.comm_cpus or rank.compute_cpus)
        assert ("CCL_YIELD" in environment) == (not rank.comm_cpus)


@given(cases)
@settings(max_examples=100, deadline=None)
def test_bound_plans(case: tuple[Machine, PlanRequest]) -> None:
    """Pinned ranks share nothing, leftovers are named, a slice crosses nodes only where ranks are fewer."""
    machine, request = case
    plan = make_plan(machine, request)
    assume(plan.bound)
    cpu_of = {cpu.number: cpu for cpu in machine.cpus}
    used = [cpu for rank in plan.ranks for cpu in (*rank.compute_cpus, *rank.comm_cpus)]
    assert len(used) == len(set(used))
    assert set(plan.idle_cpus) == set(machine.numbers) - set(used)
    compute_cores = [cpu_of[cpu].core for rank in plan.ranks for cpu in rank.compute_cpus]
    assert len(compute_cores) == len(set(compute_cores))
    auto = auto_ranks(machine, cpu_limit_millis=request.cpu_limit_millis)
    for rank in plan.ranks:
        nodes = {cpu_of[cpu].node for cpu in (*rank.compute_cpus, *rank.comm_cpus)}
        assert len(nodes) == 1 or len(plan.ranks) < auto
    if request.ranks is None:
        assert len(plan.ranks) == auto


@given(cases)
@settings(max_examples=100, deadline=None)
def test_slices_are_the_largest_that_are_possible(case: tuple[Machine, PlanRequest]) -> None:
    """One core more a rank would not fit: counted by brute force over the nodes."""
    machine, request = case
    plan = make_plan(machine, request)
    assume(plan.bound)
    assume(len(plan.ranks) >= auto_ranks(machine, cpu_limit_millis=request.cpu_limit_millis))
    sizes: dict[int, int] = {}
    for core in machine.cores:
        sizes[core[0].node] = sizes.get(core[0].node, 0) + 1
    cpu_of = {cpu.number: cpu for cpu in machine.cpus}
    rank = plan.ranks[0]
    size = len({cpu_of[cpu].core for cpu in (*rank.compute_cpus, *rank.comm_cpus)})
    assert sum(cores // (size + 1) for cores in sizes.values()) < len(plan.ranks)


@given(machines())
@settings(max_examples=100, deadline=None)
def test_more_ranks_than_cores_is_a_clear_error(machine: Machine) -> None:
    most = largest_ranks(machine)
    make_plan(machine, PlanRequest(ranks=most))
    with pytest.raises(PlanError, match=r"spec\.ranksPerWorker to at most \d+"):
        make_plan(machine, PlanRequest(ranks=most + 1))
