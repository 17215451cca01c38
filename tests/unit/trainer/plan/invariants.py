"""What holds for the plan of any machine and any request, checked by other means than the plan's own."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence

from xeontrain_trainer.machine import Cpu, Machine, parse_cpus
from xeontrain_trainer.plan import (
    Plan,
    PlanRequest,
    RankPlan,
    auto_ranks,
    largest_ranks,
    make_plan,
    plan_from_json,
)


def random_request(rng: random.Random, machine: Machine) -> PlanRequest:
    """A request that the machine can meet."""
    limit = rng.choice([None, 1000 * rng.randint(1, len(machine.online)), 1000 * len(machine.cpus)])
    most = largest_ranks(machine, cpu_limit_millis=limit)
    few = min(most, 6)
    return PlanRequest(
        ranks=rng.choice([None, rng.randint(1, few), rng.randint(1, most)]),
        workers=rng.randint(1, 4),
        ccl_workers_per_rank=rng.choice([None, None, rng.randint(1, 6)]),
        cpu_limit_millis=limit,
        pinning=rng.choice(["Required", "Preferred", "Preferred", "Disabled"]),
    )


def check(machine: Machine, request: PlanRequest) -> Plan:
    """Makes the plan and raises AssertionError where one of the promises of docs/plan.md is broken."""
    plan = make_plan(machine, request)
    assert make_plan(machine, request) == plan, "the same again"
    assert plan_from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert plan.cpus == machine.numbers
    for rank in plan.ranks:
        assert {*rank.compute_cpus, *rank.comm_cpus} <= set(machine.numbers), "inside the granted set"
        assert set(rank.nodes) <= set(machine.memory_nodes)
        assert list(rank.compute_cpus) == sorted(rank.compute_cpus)
        assert list(rank.comm_cpus) == sorted(rank.comm_cpus)
    assert len({(rank.threads, len(rank.comm_cpus)) for rank in plan.ranks}) == 1, "equal slices"
    if request.ranks is not None:
        assert len(plan.ranks) == request.ranks
    else:
        asked = {"cpu_limit_millis": request.cpu_limit_millis, "pinning": request.pinning}
        assert len(plan.ranks) == auto_ranks(machine, **asked)  # type: ignore[arg-type]
    _check_time(plan, machine, request)
    _check_ccl(plan, machine)
    if plan.bound:
        _check_pinned(plan, machine, request)
    else:
        assert {rank.compute_cpus for rank in plan.ranks} == {machine.numbers}
        assert not any(rank.comm_cpus or rank.nodes for rank in plan.ranks)
    return plan


def _check_time(plan: Plan, machine: Machine, request: PlanRequest) -> None:
    """No more threads than cores, quota and limit allow; at least one a rank."""
    threads = sum(rank.threads for rank in plan.ranks)
    assert len(plan.ranks) <= threads <= len(machine.cores)
    if machine.quota_cpus is not None:
        assert threads <= max(1, math.floor(machine.quota_cpus + 1e-6)), "quota respected"
    if request.cpu_limit_millis is not None:
        assert threads <= request.cpu_limit_millis // 1000, "limit respected"
    assert plan.bound or request.pinning == "Disabled" or threads < len(machine.cpus)


def _check_ccl(plan: Plan, machine: Machine) -> None:
    """oneCCL starts only with a list of exactly local ranks x workers CPUs, all of them granted."""
    for rank in plan.ranks:
        environment = rank.environment
        affinity = [int(cpu) for cpu in environment["CCL_WORKER_AFFINITY"].split(",")]
        count = int(environment["CCL_WORKER_COUNT"])
        assert len(affinity) == len(plan.ranks) * count
        assert set(affinity) <= set(machine.numbers)
        assert environment["CCL_LOCAL_RANK"] == str(rank.local_rank)
        assert environment["CCL_LOCAL_SIZE"] == str(len(plan.ranks))
        assert environment["OMP_NUM_THREADS"] == str(rank.threads)
        mine = affinity[rank.local_rank * count :][:count]
        assert set(mine) <= set(rank.comm_cpus or rank.compute_cpus)
        assert ("CCL_YIELD" in environment) == (not rank.comm_cpus)
        assert not any(name.startswith("KMP_") for name in environment)


def _check_pinned(plan: Plan, machine: Machine, request: PlanRequest) -> None:
    cpu_of = {cpu.number: cpu for cpu in machine.cpus}
    used = [cpu for rank in plan.ranks for cpu in (*rank.compute_cpus, *rank.comm_cpus)]
    assert len(used) == len(set(used)), "ranks share nothing"
    assert set(plan.idle_cpus) == set(machine.numbers) - set(used), "leftovers named"
    cores = [cpu_of[cpu].core for rank in plan.ranks for cpu in rank.compute_cpus]
    assert len(cores) == len(set(cores)), "one compute CPU a physical core"
    slices = [_Slice(rank, cpu_of) for rank in plan.ranks]
    auto = auto_ranks(machine, cpu_limit_millis=request.cpu_limit_millis)
    for one in slices:
        assert len(one.nodes) == 1 or len(plan.ranks) < auto, "none crosses a node"
    _check_unused_cores(plan, machine, slices)
    _check_communication(slices, request)
    _check_size(slices, machine, across=len(plan.ranks) < auto)


class _Slice:
    """A rank's cores: `compute`, `comm` (whole ones that communicate), `spare` (idle siblings it has)."""

    def __init__(self, rank: RankPlan, cpu_of: dict[int, Cpu]) -> None:
        self.rank = rank
        self.compute = {cpu_of[cpu].core for cpu in rank.compute_cpus}
        self.comm = {cpu_of[cpu].core for cpu in rank.comm_cpus} - self.compute
        self.cores = self.compute | self.comm
        self.nodes = {cpu_of[cpu].node for cpu in (*rank.compute_cpus, *rank.comm_cpus)}
        threads = Counter(cpu.core for cpu in cpu_of.values())
        self.spare = sum(threads[core] - 1 for core in self.cores)
        self.slow = {cpu_of[cpu].efficient for cpu in rank.compute_cpus}


def _check_unused_cores(plan: Plan, machine: Machine, slices: Sequence[_Slice]) -> None:
    """Whole cores that nobody uses are named in the warnings, all of them."""
    unused = {cpu.core for cpu in machine.cpus} - set().union(*(one.cores for one in slices))
    cpus = {cpu.number for cpu in machine.cpus if cpu.core in unused}
    lists = [text.split("(CPUs ")[1].split(")")[0] for text in plan.warnings if "(CPUs " in text]
    assert {cpu for one in lists for cpu in parse_cpus(one)} == cpus, "leftover cores named"


def _check_communication(slices: Sequence[_Slice], request: PlanRequest) -> None:
    """Idle siblings first; whole cores where there are none and the slice is large; else none."""
    if request.workers * len(slices) == 1:
        assert not any(one.rank.comm_cpus for one in slices), "nobody to talk to"
        return
    size = len(slices[0].cores)
    wanted = request.ccl_workers_per_rank or max(1, min(4, size // 8))
    siblings = min(one.spare for one in slices)
    for one in slices:
        number = len(one.rank.comm_cpus)
        if siblings:
            assert not one.comm, "siblings first"
            assert number == min(siblings, wanted)
        elif size >= 8 and 2 * wanted <= size:
            assert len(one.comm) == number == wanted, "whole cores where there are no siblings"
        else:
            assert number == 0, "a small slice keeps its cores"


def _check_size(slices: Sequence[_Slice], machine: Machine, *, across: bool) -> None:
    """Slices are the largest that are possible; where they cross nodes, no node is shared by two ranks unless
    that would cost more than a quarter of the cores. Counted by brute force."""
    ranks, size = len(slices), len(slices[0].cores)
    cores = _computing(machine, slices)
    nodes = Counter(core[0].node for core in cores)
    if not across:
        assert sum(number // (size + 1) for number in nodes.values()) < ranks, "the largest slices"
        return
    full = {node: number for node, number in nodes.items() if 2 * number >= max(nodes.values())}
    largest = sum(full.values()) // ranks
    homes = Counter(node for one in slices for node in one.nodes)
    if max(homes.values()) == 1:
        assert size >= 0.75 * largest
    else:
        assert size == largest
        if len(full) <= 6:
            best = max(min(groups) for groups in _groupings(list(full.values()), ranks))
            assert best < 0.75 * largest, "whole nodes would have done"


def _computing(machine: Machine, slices: Sequence[_Slice]) -> list[tuple[Cpu, ...]]:
    """The cores that may compute: of a hybrid machine the fast ones, unless they are too few."""
    fast = [core for core in machine.cores if not core[0].efficient]
    if len(slices) > len(fast) or len(fast) < 0.4 * len(machine.cores):
        return list(machine.cores)
    assert all(one.slow == {False} for one in slices), "fast cores alone"
    return fast


def _groupings(sizes: Sequence[int], groups: int) -> Iterator[list[int]]:
    """The groups' totals for each way to put whole nodes into so many groups."""
    for homes in itertools.product(range(groups), repeat=len(sizes)):
        totals = [0] * groups
        for home, size in zip(homes, sizes, strict=True):
            totals[home] += size
        yield totals
