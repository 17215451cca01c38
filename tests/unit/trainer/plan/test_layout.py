"""Known machines get the layout that an expert would give them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from xeontrain_trainer.machine import Machine, format_cpus
from xeontrain_trainer.plan import (
    Plan,
    PlanError,
    PlanRequest,
    agree_ranks,
    auto_ranks,
    largest_ranks,
    make_plan,
)

from tests.unit.trainer.machines import build


def layout(plan: Plan) -> list[tuple[str, str]]:
    return [(format_cpus(rank.compute_cpus), format_cpus(rank.comm_cpus)) for rank in plan.ranks]


@pytest.mark.parametrize(
    ("machine", "request_", "expected"),
    [
        pytest.param({"cores": 1}, {}, [("0", "")], id="one-cpu"),
        pytest.param({"cores": 4}, {}, [("0-3", "")], id="small-pod-keeps-all-cores"),
        pytest.param({"cores": 16}, {}, [("0-13", "14-15")], id="large-slice-gives-whole-cores"),
        pytest.param({"cores": 16, "threads": 2}, {}, [("0-15", "30-31")], id="sibling-threads-first"),
        pytest.param(
            {"cores": 4, "threads": 2, "adjacent": True}, {}, [("0,2,4,6", "7")], id="adjacent-siblings"
        ),
        pytest.param(
            {"cores": 4, "threads": 2, "granted": [0, 1, 4, 5]}, {}, [("0-1", "5")], id="pairs-of-threads"
        ),
        pytest.param(
            {"cores": 4, "threads": 2, "granted": [4, 1, 6]}, {}, [("1,4,6", "")], id="second-threads-alone"
        ),
        pytest.param(
            {"sockets": 2, "cores": 8},
            {},
            [("0-6", "7"), ("8-14", "15")],
            id="a-rank-a-node",
        ),
        pytest.param({"sockets": 2, "cores": 8}, {"ranks": 1}, [("0-13", "14-15")], id="one-rank-over-both"),
        pytest.param(
            {"sockets": 2, "cores": 8},
            {"ranks": 4},
            [("0-3", ""), ("4-7", ""), ("8-11", ""), ("12-15", "")],
            id="two-ranks-a-node",
        ),
        pytest.param(
            {"sockets": 2, "cores": 8, "granted": [*range(8), 8]},
            {},
            [("0-6", "7")],
            id="a-stray-core-is-no-node",
        ),
        pytest.param(
            {"sockets": 2, "cores": 8, "granted": [*range(8), *range(8, 12)]},
            {},
            [("0-3", ""), ("8-11", "")],
            id="half-a-node-is-one",
        ),
        pytest.param(
            {"sockets": 2, "cores": 4, "granted": [0, 1, 2, 3, 4]},
            {"ranks": 2},
            [("0-1", ""), ("2-3", "")],
            id="equal-slices-in-the-large-node",
        ),
        pytest.param(
            {"cores": 16},
            {"ccl_workers_per_rank": 4},
            [("0-11", "12-15")],
            id="communication-threads-as-asked",
        ),
        pytest.param({"cores": 16}, {"workers": 1}, [("0-15", "")], id="nobody-to-talk-to"),
        pytest.param(
            {"cores": 16, "threads": 2, "granted": [*range(16), 16]},
            {},
            [("0-15", "16")],
            id="one-idle-sibling-before-whole-cores",
        ),
        pytest.param(
            {"sockets": 2, "nodes": 2, "cores": 4},
            {"ranks": 2},
            [("0-6", "7"), ("8-14", "15")],
            id="whole-sockets-are-joined",
        ),
        pytest.param(
            {"sockets": 2, "nodes": 2, "cores": 4},
            {"ranks": 3},
            [("0-3", ""), ("4-7", ""), ("8-11", "")],
            id="a-node-each-rather-than-a-shared-one",
        ),
        pytest.param(
            {"sockets": 3, "cores": 4},
            {"ranks": 2},
            [("0-5", ""), ("6-11", "")],
            id="a-shared-node-rather-than-a-third-of-the-cores",
        ),
        pytest.param(
            # 4, 2, 4 and 2 cores a node: neighbours would give 6 and 6 as well, so they are joined.
            {"sockets": 2, "nodes": 2, "cores": 4, "granted": [0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13]},
            {"ranks": 2},
            [("0-5", ""), ("8-13", "")],
            id="unequal-nodes-joined-to-equal-slices",
        ),
        pytest.param(
            # 4, 4, 2 and 2: only nodes that are no neighbours make equal slices.
            {"sockets": 2, "nodes": 2, "cores": 4, "granted": [*range(8), 8, 9, 12, 13]},
            {"ranks": 2},
            [("0-3,8-9", ""), ("4-7,12-13", "")],
            id="nodes-joined-across-sockets-for-equal-slices",
        ),
    ],
)  # fmt: skip
def test_layout(machine: dict[str, Any], request_: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    plan = make_plan(build(**machine), PlanRequest(**{"workers": 2, **request_}))
    assert plan.bound
    assert layout(plan) == expected


def hybrid(*, fast: int, slow: int) -> Machine:
    """Fast cores of two threads, then slower ones of one."""
    whole = build(cores=fast + slow, threads=2, adjacent=True)
    slower = range(2 * fast, 2 * (fast + slow))
    cpus = (dataclasses.replace(cpu, efficient=cpu.number in slower) for cpu in whole.cpus)
    return dataclasses.replace(
        whole, cpus=tuple(cpu for cpu in cpus if not cpu.efficient or cpu.core == cpu.number)
    )


@pytest.mark.parametrize(
    ("fast", "slow", "ranks", "expected", "sentence"),
    [
        pytest.param(4, 4, 1, [("0,2,4,6", "7")], "4 slower cores", id="fast-cores-alone"),
        pytest.param(4, 4, 2, [("0,2", "3"), ("4,6", "7")], "(CPUs 8,10,12,14)", id="each-rank-fast-cores"),
        pytest.param(
            1, 4, 1, [("0,2,4,6,8", "1")], "the slower ones set the pace", id="too-few-fast-cores-to-be-alone"
        ),
        pytest.param(
            2,
            2,
            4,
            [("0", ""), ("2", ""), ("4", ""), ("6", "")],
            "share the compute",
            id="a-rank-for-each-core",
        ),
        pytest.param(0, 4, 1, [("0,2,4,6", "")], "share the compute", id="slower-cores-only"),
    ],
)
def test_a_hybrid_machine_computes_on_one_kind_of_core(
    fast: int, slow: int, ranks: int, expected: list[tuple[str, str]], sentence: str
) -> None:
    plan = make_plan(hybrid(fast=fast, slow=slow), PlanRequest(ranks=ranks, workers=2))
    assert layout(plan) == expected
    assert sentence in " ".join(plan.warnings)


@pytest.mark.parametrize(
    ("quota", "limit_millis", "sentence"),
    [
        pytest.param(
            2.5, 4000, "a CFS quota of 2.5 CPUs is below spec.resources.cpu (4)", id="below-the-limit"
        ),
        pytest.param(4.0, 4000, None, id="as-large-as-the-limit"),
        pytest.param(2.5, None, None, id="no-limit"),
    ],
)
def test_a_quota_below_the_limit_is_named(
    quota: float, limit_millis: int | None, sentence: str | None
) -> None:
    """The node takes back what the job was given: the user can not see it from the resource."""
    machine = build(cores=4, quota_cpus=quota)
    plan = make_plan(machine, PlanRequest(cpu_limit_millis=limit_millis))
    assert any("CFS quota" in warning for warning in plan.warnings) == (sentence is not None)
    assert sentence is None or sentence in plan.warnings[0]


@pytest.mark.parametrize(
    ("machine", "limit_millis", "pinning", "ranks", "threads"),
    [
        pytest.param({"cores": 16}, 4000, "Preferred", None, 4, id="shared-pool"),
        pytest.param({"cores": 16, "quota_cpus": 4.0}, None, "Preferred", None, 4, id="quota-alone"),
        pytest.param({"cores": 16, "quota_cpus": 0.5}, 500, "Disabled", None, 1, id="less-than-one-cpu"),
        pytest.param({"cores": 16}, 7500, "Disabled", None, 7, id="fraction"),
        pytest.param({"cores": 16}, 8000, "Preferred", 4, 2, id="ranks-share-the-limit"),
        pytest.param({"sockets": 2, "cores": 8}, 16000, "Disabled", None, 16, id="disabled"),
    ],
)
def test_nothing_is_pinned_in_a_shared_pool(
    machine: dict[str, Any], limit_millis: int | None, pinning: str, ranks: int | None, threads: int
) -> None:
    """Neighbours that all chose the same CPUs would be worse off: only the number of threads is set."""
    built = build(**machine)
    plan = make_plan(
        built, PlanRequest(ranks=ranks, workers=2, cpu_limit_millis=limit_millis, pinning=pinning)
    )
    assert not plan.bound
    assert plan.cores_per_rank == threads
    assert all(rank.compute_cpus == built.numbers and rank.nodes == () for rank in plan.ranks)


@pytest.mark.parametrize(
    ("machine", "limit_millis", "auto", "largest"),
    [
        pytest.param({"sockets": 2, "cores": 8}, None, 2, 16, id="two-nodes"),
        pytest.param({"sockets": 2, "cores": 8, "threads": 2}, None, 2, 16, id="threads-are-not-cores"),
        pytest.param({"sockets": 2, "cores": 8}, 16000, 2, 16, id="limit-as-large"),
        pytest.param({"sockets": 2, "cores": 8}, 4000, 1, 4, id="shared-pool"),
        pytest.param({"sockets": 2, "cores": 8, "quota_cpus": 2.5}, None, 1, 2, id="quota"),
        pytest.param({"sockets": 2, "cores": 4, "granted": [0, 1, 2, 4]}, None, 1, 4, id="under-half"),
    ],
)
def test_ranks_that_a_worker_reports(
    machine: dict[str, Any], limit_millis: int | None, auto: int, largest: int
) -> None:
    built = build(**machine)
    assert auto_ranks(built, cpu_limit_millis=limit_millis) == auto
    assert largest_ranks(built, cpu_limit_millis=limit_millis) == largest


@pytest.mark.parametrize(
    ("reported", "workers", "batch", "expected"),
    [
        pytest.param([4, 4], 2, 32, 4, id="all-alike"),
        pytest.param([4, 2], 2, 32, 2, id="the-smallest-worker"),
        pytest.param([4, 4, 4], 3, 32, 1, id="nothing-divides"),
        pytest.param([4], 1, 6, 3, id="largest-divisor"),
        pytest.param([3, 3], 2, None, 3, id="command-counts-nodes-only"),
        pytest.param([], 1, 8, 1, id="no-report"),
    ],
)
def test_agreement(reported: list[int], workers: int, batch: int | None, expected: int) -> None:
    assert agree_ranks(reported, workers=workers, global_batch_size=batch) == expected


def test_leftovers_and_crossings_are_named() -> None:
    plan = make_plan(build(sockets=3, cores=5), PlanRequest(ranks=2, workers=2))
    assert plan.idle_cpus == (14,)
    text = " ".join(plan.warnings)
    assert "1 of 15 (CPUs 14)" in text
    assert "several nodes" in text
    assert "share the compute CPUs" in text


def test_memory_is_bound_only_where_all_of_a_rank_s_nodes_allow_it() -> None:
    """Binding to some of its nodes would send the rest of the rank's memory the long way."""
    machine = dataclasses.replace(build(sockets=2, cores=4), memory_nodes=(1,))
    assert [rank.nodes for rank in make_plan(machine, PlanRequest()).ranks] == [(), (1,)]
    assert [rank.nodes for rank in make_plan(machine, PlanRequest(ranks=1)).ranks] == [()]


def test_one_core_is_too_few_for_four_ranks() -> None:
    with pytest.raises(PlanError) as raised:
        make_plan(build(cores=4, threads=2, granted=[1, 5]), PlanRequest(ranks=4))
    assert str(raised.value) == (
        "ranksPerWorker is 4, but the pod's CPUs are 1 physical core: each rank needs one. "
        "Set spec.ranksPerWorker to at most 1, or raise spec.resources.cpu"
    )
