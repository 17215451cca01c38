"""CPUPinned is True only where everything proves it; what stands against it is named, with who did it."""

from __future__ import annotations

from typing import Any

import pytest
from xeontrain_operator.cache import slim_pod, slim_stateful_set

from tests.unit.operator.reconcile.test_decide_life import Life, conditions, message, reasons
from tests.unit.operator.sample import (
    children,
    cpu,
    failed_result,
    pending_pod,
    pod,
    report,
    stamp,
    terminated,
)

Document = dict[str, Any]
SIZE = {"cpu": "8", "memory": "16Gi"}
TRAINER = {"name": "trainer", "image": "i", "resources": {"requests": SIZE, "limits": SIZE}}
HELPER = {"name": "helper", "image": "i"}


def _members(**of_worker_one: Any) -> list[Document]:
    return [
        {"worker": 0, "podUid": "pod-0", "state": "Running", "round": 1, "cpu": cpu()},
        {"worker": 1, "podUid": "pod-1", "state": "Running", "round": 1, "cpu": cpu(**of_worker_one)},
    ]


@pytest.mark.parametrize(
    ("observed", "expected", "words"),
    [
        (
            {"launcher": report(members=_members(exclusive="False", reason="SharedPool", message="a pool"))},
            ("False", "SharedPool"),
            "Worker 1: a pool.",
        ),
        (
            {"launcher": report(members=_members(exclusive="False", reason="QuotaThrottled", message="x"))},
            ("False", "QuotaThrottled"),
            "Worker 1: x.",
        ),
        (
            {"launcher": report(members=_members(exclusive="False", reason="FractionalCPU", message="x"))},
            ("False", "FractionalCPU"),
            "Worker 1: x.",
        ),
        (
            {"launcher": report(members=_members(exclusive="False", reason="WordOfAnotherVersion"))},
            ("False", "SharedPool"),
            "Worker 1: WordOfAnotherVersion.",
        ),
        (
            {"launcher": report(members=_members(exclusive="False", reason="SharedPool")[1:])},
            ("False", "SharedPool"),
            "Worker 1",
        ),
        (
            {"launcher": report(members=_members(exclusive="Unknown", reason="NotProven"))},
            ("Unknown", "NotProven"),
            "Worker 1: NotProven.",
        ),
        ({"launcher": report(workers=1)}, ("Unknown", "NotProven"), "before all workers have reported"),
        (
            {"launcher": report(members=_members(changed="its CPU set was 0-7 and is 8-15"))},
            ("True", "Exclusive"),
            "of its own. Worker 1: its CPU set was 0-7 and is 8-15.",
        ),
        (
            {"launcher": report(), "pods": (pod(0), pod(1, status={"qosClass": "Burstable"}))},
            ("False", "NotGuaranteed"),
            "worker 1 is not Guaranteed",
        ),
        ({"launcher": report(), "pods": (pod(0), pod(1))}, ("True", "Exclusive"), "workers has 8 CPUs"),
    ],
    ids=[
        "shared",
        "throttled",
        "fraction",
        "another-version",
        "one-word-against-is-enough",
        "not-proven",
        "one-not-heard",
        "set-changed",
        "not-guaranteed",
        "proved",
    ],
)
def test_the_condition(observed: Document, expected: tuple[str, str], words: str) -> None:
    """Every worker's proof, and the pod's class, which no worker can see."""
    life = Life()
    life.decide()
    life.started()
    decision = life.started(**observed)
    assert conditions(decision)["CPUPinned"] == expected
    assert words in message(decision, "CPUPinned")


def _burstable(*containers: Document, filled_in: str = "", init: Document | None = None) -> Document:
    made = pod(1, status={"qosClass": "Burstable"})
    made["apiVersion"] = "v1"
    made["spec"]["containers"] = [TRAINER, *containers]
    if init is not None:
        made["spec"]["initContainers"] = [init]
    if filled_in:
        made["metadata"]["annotations"] = {"kubernetes.io/limit-ranger": filled_in}
    return made


LITTLE = {"requests": {"cpu": "100m"}, "limits": {"cpu": "2", "memory": "1Gi"}}


@pytest.mark.parametrize(
    ("burstable", "words"),
    [
        (
            _burstable({"name": "istio-proxy"}, HELPER | {"resources": {"limits": SIZE}}),
            ["istio-proxy, which the job does not have, has no limit of cpu", "sidecar injector"],
        ),
        (
            _burstable(HELPER | {"resources": {"limits": SIZE}}, init={"name": "init-net"}),
            ["init-net, which the job does not have, has no limit of cpu"],
        ),
        (
            _burstable(
                HELPER | {"resources": LITTLE},
                filled_in="LimitRanger plugin set: cpu request for container helper",
            ),
            ["helper asks for 100m cpu and has a limit of 2", "LimitRange", "spec.podTemplate.containers"],
        ),
        (
            _burstable(HELPER),
            ["helper has no limit of cpu.", "Write resources.limits", "spec.podTemplate.containers"],
        ),
        (
            _burstable(HELPER | {"resources": LITTLE}),
            ["helper asks for 100m cpu and has a limit of 2", "has changed what the job asks for it"],
        ),
        (
            _burstable(
                HELPER | {"resources": {"limits": SIZE}},
                *({"name": f"x{number}"} for number in range(5)),
            ),
            ["Container x0", "Container x2", "So are 2 more containers."],
        ),
        (_burstable(HELPER | {"resources": {"limits": SIZE}}), ["Something changes its resources"]),
    ],
    ids=[
        "injected-sidecar",
        "injected-init-container",
        "limit-range",
        "own-container-without-limits",
        "changed-by-a-policy",
        "many",
        "no-container-is-to-blame",
    ],
)
def test_who_keeps_the_pod_from_being_guaranteed(burstable: Document, words: list[str]) -> None:
    """The container, what is wrong with it, who brought it and what to write; read from slim copies."""
    life = Life(spec={"podTemplate": {"containers": [HELPER]}})
    life.decide()
    made = children(life.document)
    made["stateful_set"] = slim_stateful_set(made["stateful_set"])
    decision = life.decide(pods=(pod(0), slim_pod(burstable)), **made)
    assert conditions(decision)["CPUPinned"] == ("False", "NotGuaranteed")
    assert [word for word in words if word not in message(decision, "CPUPinned")] == []
    assert "NotGuaranteed" in reasons(decision)


def test_sizes_that_are_equal_in_other_words_are_no_fault() -> None:
    """A container that is as the rule wants it is not blamed for another's fault."""
    sizes = {"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    life = Life(spec={"podTemplate": {"containers": [HELPER | {"resources": sizes}]}})
    life.decide()
    burstable = _burstable(HELPER | {"resources": sizes}, {"name": "sidecar"})
    decision = life.started(pods=(pod(0), burstable))
    assert "helper" not in message(decision, "CPUPinned")


@pytest.mark.parametrize(
    "shared",
    [
        pod(1, status={"qosClass": "Burstable"}),
        pending_pod(1) | {"status": {"phase": "Pending", "qosClass": "BestEffort"}},
    ],
    ids=["running", "not-yet-placed"],
)
def test_required_pinning_fails_where_a_pod_is_not_guaranteed(shared: Document) -> None:
    """The launcher may believe in its CPUs; without that class they are nobody's own. Known at once."""
    life = Life(spec={"pinning": "Required"})
    life.decide()
    decision = life.started(pods=(pod(0), shared))
    assert conditions(decision)["Failed"] == ("True", "NotPinned")
    assert "but NotGuaranteed: The pod of worker 1" in message(decision, "Failed")
    assert conditions(decision)["CPUPinned"] == ("False", "NotGuaranteed")


def test_remarks_on_the_plan_are_in_the_status() -> None:
    """A value of the user's that wins over the plan's is told where the job's CPUs are."""
    said = "OMP_NUM_THREADS=3 is set in the environment and wins over 8"
    life = Life()
    life.train()
    assert life.started(launcher=report(warnings=[said])).status["cpu"]["warnings"] == [said]
    assert "warnings" not in life.started(launcher=report()).status["cpu"]


def test_a_pod_on_its_way_out_ends_nothing() -> None:
    """It is being replaced: the next one is judged."""
    life = Life(spec={"pinning": "Required"})
    life.decide()
    leaving = pod(1, status={"qosClass": "Burstable"}, deleted=stamp(30))
    assert life.started(pods=(pod(0), leaving)).status["phase"] != "Failed"


@pytest.mark.parametrize(
    ("detail", "expected"),
    [("SharedPool", ("False", "SharedPool")), ("NotProven", ("Unknown", "NotProven"))],
)
def test_a_launchers_refusal_tells_the_condition(detail: str, expected: tuple[str, str]) -> None:
    """The job may end before the operator has heard any launcher but by the result document."""
    life = Life(spec={"pinning": "Required"})
    life.decide()
    said = f"spec.pinning is Required, but {detail}: why"
    ended = terminated(failed_result("NotPinned", said, detail=detail, exitCode=None))
    decision = life.started(pods=(pod(0, state=ended), pod(1)))
    assert conditions(decision)["Failed"] == ("True", "NotPinned")
    assert conditions(decision)["CPUPinned"] == expected
    assert said in message(decision, "CPUPinned")
