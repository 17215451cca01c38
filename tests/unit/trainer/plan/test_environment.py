"""Each rank gets what its libraries read; what the user set wins and is named."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from xeontrain_trainer.plan import PlanError, PlanRequest, make_plan, plan_from_json

from tests.unit.trainer.machines import build

MALLOC = {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"}


def environment(rank: int = 0, *, machine: dict[str, Any] | None = None, **request: Any) -> dict[str, str]:
    plan = make_plan(build(**(machine or {"cores": 4})), PlanRequest(**{"workers": 2, **request}))
    return dict(plan.ranks[rank].environment)


def test_two_ranks_on_two_nodes() -> None:
    """The whole environment of the second rank, name by name."""
    machine = {"sockets": 2, "cores": 16, "threads": 2}
    assert environment(1, machine=machine, interface="eth0", tcmalloc="/lib/libtcmalloc.so.4") == {
        "OMP_NUM_THREADS": "16",
        "CCL_WORKER_COUNT": "2",
        "CCL_WORKER_AFFINITY": "46,47,62,63",
        "CCL_LOCAL_RANK": "1",
        "CCL_LOCAL_SIZE": "2",
        "CCL_PROCESS_LAUNCHER": "none",
        "CCL_ATL_TRANSPORT": "ofi",
        "FI_PROVIDER": "tcp",
        "FI_TCP_IFACE": "eth0",
        "CCL_KVS_IFACE": "eth0",
        "GLOO_SOCKET_IFNAME": "eth0",
        "LD_PRELOAD": "/lib/libtcmalloc.so.4",
    }


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param({}, {"CCL_YIELD": "sched_yield", "CCL_WORKER_AFFINITY": "3"}, id="no-core-to-spare"),
        pytest.param(
            {"ccl_workers_per_rank": 6}, {"CCL_WORKER_AFFINITY": "0,1,2,3,0,1"}, id="more-workers-than-cores"
        ),
        pytest.param({"interface": "lo"}, {"GLOO_SOCKET_IFNAME": "lo", "FI_TCP_IFACE": "lo"}, id="loopback"),
        pytest.param(
            {"tcmalloc": "/a/libtcmalloc.so.4", "intel_openmp": "/b/libiomp5.so"},
            {
                "LD_PRELOAD": "/b/libiomp5.so:/a/libtcmalloc.so.4",
                "KMP_AFFINITY": "granularity=fine,compact,1,0",
                "KMP_BLOCKTIME": "1",
            },
            id="both-libraries",
        ),
        pytest.param({}, {"MALLOC_TOP_PAD_": "67108864"}, id="glibc-is-told-to-keep-memory"),
        pytest.param({"environ": {"CCL_WORKER_COUNT": "2"}}, {"CCL_WORKER_AFFINITY": "2,3"}, id="own-count"),
    ],
)  # fmt: skip
def test_values(request_: dict[str, Any], expected: dict[str, str]) -> None:
    assert environment(**request_).items() >= expected.items()


@pytest.mark.parametrize(
    ("request_", "absent"),
    [
        pytest.param({}, {"KMP_AFFINITY", "KMP_BLOCKTIME", "LD_PRELOAD"}, id="nothing-preloaded"),
        pytest.param({"tcmalloc": "/libtcmalloc.so.4"}, {"KMP_AFFINITY", *MALLOC}, id="tcmalloc-alone"),
        pytest.param({"environ": {"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}}, MALLOC, id="users-allocator"),
        pytest.param(
            {"intel_openmp": "/libiomp5.so", "pinning": "Disabled"}, {"KMP_AFFINITY"}, id="not-pinned"
        ),
        pytest.param({}, {"FI_TCP_IFACE", "CCL_KVS_IFACE", "GLOO_SOCKET_IFNAME"}, id="interface-unknown"),
        pytest.param({"machine": {"cores": 16}}, {"CCL_YIELD"}, id="a-core-for-communication"),
    ],
)
def test_what_is_not_set(request_: dict[str, Any], absent: set[str]) -> None:
    assert not set(environment(**request_)) & absent


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "LD_PRELOAD", "FI_PROVIDER", "MALLOC_TOP_PAD_"])
def test_the_users_value_wins_and_is_named(name: str) -> None:
    plan = make_plan(build(), PlanRequest(environ={name: "mine"}, tcmalloc="/x.so"))
    assert plan.ranks[0].environment[name] == "mine"
    assert any(f"{name}=mine is set" in warning for warning in plan.warnings)


def test_the_same_value_is_no_conflict() -> None:
    """The operator sets some of these itself: that is no warning."""
    own = {"CCL_PROCESS_LAUNCHER": "none", "CCL_ATL_TRANSPORT": "ofi", "FI_PROVIDER": "tcp"}
    assert make_plan(build(), PlanRequest(environ=own)).warnings == ()


def test_a_fixed_local_rank_cannot_win() -> None:
    """One value in the pod's environment would give every rank the same place."""
    plan = make_plan(build(), PlanRequest(ranks=2, environ={"CCL_LOCAL_RANK": "0"}))
    assert [rank.environment["CCL_LOCAL_RANK"] for rank in plan.ranks] == ["0", "1"]


@pytest.mark.parametrize(
    ("affinity", "sentence"),
    [
        pytest.param("99", "CPUs that the pod does not have (99)", id="outside"),
        pytest.param("auto", "means the last CPUs of the host", id="auto"),
        pytest.param("2,3", "has 2 entries, but 1 x CCL_WORKER_COUNT=1 are needed", id="too-long"),
    ],
)
def test_an_affinity_that_oneccl_dies_of_is_named(affinity: str, sentence: str) -> None:
    """Refused where oneCCL is asked for; a warning where it may not be used at all."""
    plan = make_plan(build(), PlanRequest(environ={"CCL_WORKER_AFFINITY": affinity}))
    assert any(sentence in warning and "spec.env" in warning for warning in plan.warnings)


@pytest.mark.parametrize("count", ["\u00b2", "-1", "two", "1000000000", "9" * 5000])
def test_a_count_that_is_none_is_named_and_never_built_up(count: str) -> None:
    """An affinity list of a thousand million entries would end the launcher for want of memory."""
    plan = make_plan(build(), PlanRequest(environ={"CCL_WORKER_COUNT": count}))
    assert plan.ranks[0].environment["CCL_WORKER_AFFINITY"].count(",") < 4
    assert any("is no number of threads" in warning and "spec.env" in warning for warning in plan.warnings)


def test_oneccl_asked_for_with_cpus_of_others_is_refused() -> None:
    request = PlanRequest(environ={"CCL_WORKER_AFFINITY": "99"}, backend="CCL")
    with pytest.raises(PlanError, match=r"\(99\): oneCCL will not start\. Remove it from spec\.env"):
        make_plan(build(), request)


@pytest.mark.parametrize("affinity", ["3", "0-0"])
def test_an_affinity_of_the_users_that_fits_is_only_named(affinity: str) -> None:
    plan = make_plan(build(), PlanRequest(environ={"CCL_WORKER_AFFINITY": affinity}, ranks=1, workers=2))
    assert plan.ranks[0].environment["CCL_WORKER_AFFINITY"] == affinity
    assert not any("will not start" in warning for warning in plan.warnings)


def test_workers_of_a_shared_pool_do_not_pin_oneccl_to_the_same_cpus() -> None:
    pool = build(cores=8)
    lists = [
        make_plan(pool, PlanRequest(ranks=2, workers=3, worker=worker, cpu_limit_millis=4000))
        .ranks[0]
        .environment["CCL_WORKER_AFFINITY"]
        for worker in range(3)
    ]
    assert lists == ["7,6", "5,4", "3,2"]


def test_a_library_that_is_not_there_is_named_and_counts_for_nothing() -> None:
    """The linker goes on without it: no variable of its runtime, and glibc is told to keep memory."""
    path = "/opt/libiomp5.so:/opt/libtcmalloc.so.4"
    request = PlanRequest(environ={"LD_PRELOAD": path}, missing_preloads=tuple(path.split(":")))
    plan = make_plan(build(), request)
    assert "/opt/libiomp5.so, which is not there" in " ".join(plan.warnings)
    assert "spec.env (LD_PRELOAD)" in " ".join(plan.warnings)
    assert plan.ranks[0].environment.items() >= {"MALLOC_TOP_PAD_": "67108864"}.items()
    assert "KMP_AFFINITY" not in plan.ranks[0].environment


def test_an_interface_that_does_not_exist_is_refused_before_a_rank_waits_on_it() -> None:
    with pytest.raises(PlanError, match=r"spec\.distributed\.interface is eth9, but the pod has eth0, lo:"):
        make_plan(build(), PlanRequest(interface="eth9", interfaces=("eth0", "lo")))
    make_plan(build(), PlanRequest(interface="eth9", interfaces=None))


def test_loopback_is_refused_where_ranks_are_in_several_pods() -> None:
    """They would wait for each other in vain; workers on one machine use it rightly."""
    asked = PlanRequest(interface="lo", interfaces=("eth0", "lo"), pod_interface="eth0", workers=2)
    with pytest.raises(PlanError, match=r"spec\.distributed\.interface is lo, .*: name eth0, or leave"):
        make_plan(build(), asked)
    for fine in ({"workers": 1}, {"pod_interface": "lo"}, {"pod_interface": None}):
        make_plan(build(), dataclasses.replace(asked, **fine))


@pytest.mark.parametrize("name", ["GLOO_SOCKET_IFNAME", "FI_TCP_IFACE"])
def test_loopback_of_the_users_environment_is_named(name: str) -> None:
    request = PlanRequest(
        interface="eth0",
        interfaces=("eth0", "lo"),
        pod_interface="eth0",
        workers=2,
        environ={name: "lo"},
    )
    warnings = make_plan(build(), request).warnings
    assert any(f"{name}=lo names lo" in warning and "will not find" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("value", "missing"),
    [
        pytest.param("eth0", [], id="there"),
        pytest.param("eth0,eth0", [], id="several-connections"),
        pytest.param("eth9,eth0", ["eth9"], id="not-there"),
    ],
)
def test_an_interface_of_the_users_environment_is_looked_for(value: str, missing: list[str]) -> None:
    environ = {"GLOO_SOCKET_IFNAME": value}
    request = PlanRequest(interface="eth0", interfaces=("eth0", "lo"), environ=environ)
    text = [warning for warning in make_plan(build(), request).warnings if "will not find" in warning]
    assert len(text) == len(missing)
    assert all(name in warning for name, warning in zip(missing, text, strict=True))


@pytest.mark.parametrize("document", [{}, {"ranks": [{}]}, {"ranks": 3}], ids=str)
def test_what_is_not_a_plan(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="this is not a plan"):
        plan_from_json(document)
