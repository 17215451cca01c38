"""CPU hours: what the pods held for as long as they held it, and not a second more."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.operator.reconcile.test_decide_life import Life
from tests.unit.operator.sample import failure, pod, report, result, stamp, terminated

Document = dict[str, Any]
# Of the sample job: two workers of eight CPUs.
ONE_WORKER, BOTH = 8.0, 16.0


def _usage(life: Life, *, seconds: float, pods: tuple[Document, ...], **observed: Any) -> Document:
    life.seconds = seconds
    usage: Document = life.started(pods=pods, **observed).status["usage"]
    return usage


def test_time_passing_is_no_change() -> None:
    """What is held and since when is written once, however often the job is looked at."""
    life = Life()
    life.train()
    first = life.document["status"]["usage"]
    assert first == {"coreHours": 0.0, "heldCpus": BOTH, "since": stamp(0)}
    assert _usage(life, seconds=5000, pods=(pod(0), pod(1)), launcher=report()) == first


def test_a_pod_counts_from_its_node_to_its_end() -> None:
    """Not while it waits for a node, and still while it ends."""
    life = Life()
    life.decide()
    unplaced = pod(1, node=None, state={})
    usage = _usage(life, seconds=100, pods=(pod(0, state={}), unplaced))
    assert usage == {"coreHours": 0.0, "heldCpus": ONE_WORKER, "since": stamp(100)}
    usage = _usage(life, seconds=100 + 3600, pods=(pod(0), pod(1)))
    assert usage == {"coreHours": 8.0, "heldCpus": BOTH, "since": stamp(3700)}
    usage = _usage(life, seconds=3700 + 1800, pods=(pod(0), pod(1, deleted=stamp(5500))))
    assert usage["heldCpus"] == BOTH
    usage = _usage(life, seconds=3700 + 3600, pods=(pod(0),))
    assert usage == {"coreHours": 24.0, "heldCpus": ONE_WORKER, "since": stamp(7300)}


def test_a_suspended_job_pays_until_its_pods_are_gone_and_no_longer() -> None:
    """Its pods save for a quarter of an hour; the night after that is free."""
    life = Life()
    life.train()
    life.document["spec"]["runPolicy"] = {"suspend": True}
    leaving = tuple(pod(worker, deleted=stamp(1800)) for worker in (0, 1))
    assert _usage(life, seconds=1800, pods=leaving)["heldCpus"] == BOTH
    assert _usage(life, seconds=2700, pods=()) == {"coreHours": 12.0}
    assert _usage(life, seconds=30_000, pods=()) == {"coreHours": 12.0}


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_the_kubelet_has_ended_holds_nothing(phase: str) -> None:
    """Refused at admission, evicted or shut down with its node: its CPUs are free."""
    life = Life()
    life.train()
    refused = pod(1)
    refused["status"]["phase"] = phase
    usage = _usage(life, seconds=3600, pods=(pod(0), refused))
    assert usage == {"coreHours": BOTH, "heldCpus": ONE_WORKER, "since": stamp(3600)}


def test_a_failure_that_ends_the_job_closes_the_account() -> None:
    """Half an hour of both, whatever the pods do afterwards."""
    life = Life(spec={"runPolicy": {"backoffLimit": 0}})
    life.train()
    usage = _usage(life, seconds=1800, pods=(pod(0), pod(1)), launcher=report(failures=[failure(1)]))
    assert usage == {"coreHours": 8.0}
    assert _usage(life, seconds=9000, pods=(pod(0), pod(1))) == {"coreHours": 8.0}


def test_cost_by_the_price_of_the_pool() -> None:
    """Two workers of eight CPUs for two hours are 32 core hours; 64 CPUs cost 4 an hour."""
    life = Life(spec={"nodePool": "xeon"})
    life.train()
    usage = _usage(life, seconds=7200, pods=(pod(0, state=terminated(result())), pod(1)))
    assert usage == {"coreHours": 32.0, "cost": 2.0, "costDisplay": "2.00 USD"}
    assert life.document["status"]["phase"] == "Succeeded"
