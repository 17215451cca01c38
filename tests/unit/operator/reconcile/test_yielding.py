"""Two jobs that each hold a part of what both need: one gives way, and only one; a lone one never does."""

from __future__ import annotations

from typing import Any

import pytest
from xeontrain_operator.reconcile.decide import decide
from xeontrain_operator.reconcile.decision import Decision, Scale
from xeontrain_operator.reconcile.observed import Observed, Rival
from xeontrain_operator.reconcile.policies.yielding import BACK_OFF_SECONDS

from tests.unit.operator.sample import SETTINGS, at, children, job_document, pending_pod, pod, stamp

Document = dict[str, Any]
DEADLINE = 60
LATER, LONG = 30, 100  # Seconds before and after the deadline.


def half_placed(*, priority: int = 0) -> tuple[Document, Document]:
    """Worker 0 has a node, worker 1 has none."""
    placed, waits = pod(0), pending_pod(1)
    if priority:
        placed["spec"]["priority"] = waits["spec"]["priority"] = priority
    return placed, waits


def rival(
    *, created: int = -50, priority: int = 0, pods: tuple[Document, ...] | None = None, **spec: Any
) -> Rival:
    """Another job, made `created` seconds after ours."""
    policy = {"runPolicy": {"preRunningDeadlineSeconds": DEADLINE}}
    document = job_document(
        spec={**policy, **spec}, name="other", uid="other-uid", creationTimestamp=stamp(created)
    )
    return Rival(job=document, pods=half_placed(priority=priority) if pods is None else pods)


def look(
    seconds: int,
    *,
    rivals: tuple[Rival, ...] | None = (),
    pods: tuple[Document, ...] | None = None,
    status: Document | None = None,
    replicas: int = 2,
    **spec: Any,
) -> Decision:
    """A look at our half-placed job so many seconds after its pods were made."""
    policy = {"runPolicy": {"preRunningDeadlineSeconds": DEADLINE}}
    document = job_document(spec={**policy, **spec}, status=status, creationTimestamp=stamp(0))
    seen = {"pods": half_placed() if pods is None else pods, **children(document, replicas=replicas)}
    return decide(Observed(job=document, rivals=rivals, **seen), settings=SETTINGS, now=at(seconds))


def placed(decision: Decision) -> tuple[str, str]:
    """Status and reason of the condition Placed."""
    found = next(one for one in decision.status["conditions"] if one["type"] == "Placed")
    return found["status"], found["reason"]


def replicas(decision: Decision) -> int | None:
    """What the set is scaled to; None where it is left."""
    return next((action.replicas for action in decision.actions if isinstance(action, Scale)), None)


KEEPS = (None, ("False", "WaitingForNodes"))
YIELDS = (0, ("Unknown", "YieldedNodes"))


@pytest.mark.parametrize(
    ("seconds", "rivals", "spec", "expected"),
    [
        pytest.param(LONG, (), {}, KEEPS, id="alone"),
        pytest.param(LATER, (rival(),), {}, KEEPS, id="before-the-deadline"),
        pytest.param(LONG, (rival(),), {}, YIELDS, id="the-other-is-older"),
        pytest.param(LONG, (rival(created=50),), {}, KEEPS, id="the-other-is-younger"),
        pytest.param(LONG, (rival(created=50, priority=7),), {}, YIELDS, id="younger-but-more-important"),
        pytest.param(LONG, (rival(created=50), rival()), {}, YIELDS, id="three"),
        pytest.param(
            LONG,
            (rival(runPolicy={"preRunningDeadlineSeconds": 3600}),),
            {},
            KEEPS,
            id="the-other-is-patient",
        ),
        pytest.param(LONG, (rival(pods=(pod(0), pod(1))),), {}, KEEPS, id="the-other-has-all"),
        pytest.param(
            LONG, (rival(pods=(pending_pod(0), pending_pod(1))),), {}, KEEPS, id="the-other-has-none"
        ),
        pytest.param(
            LONG,
            (rival(placement={"nodeSelector": {"zone": "a"}}),),
            {"placement": {"nodeSelector": {"zone": "b"}}},
            KEEPS,
            id="other-nodes",
        ),
        pytest.param(
            LONG,
            (rival(placement={"nodeSelector": {"zone": "a"}}),),
            {"placement": {"nodeSelector": {"disk": "b"}}},
            YIELDS,
            id="nodes-that-may-be-the-same",
        ),
    ],
)
def test_who_gives_way(
    seconds: int, rivals: tuple[Rival, ...], spec: Document, expected: tuple[int | None, tuple[str, str]]
) -> None:
    """Only a job past its deadline, and only for one that comes first and holds nodes that it could use."""
    decision = look(seconds, rivals=rivals, **spec)
    assert (replicas(decision), placed(decision)) == expected


def test_one_that_gives_way_says_for_whom_and_until_when() -> None:
    """On record before its pods go, and told once."""
    decision = look(LONG, rivals=(rival(),))
    assert decision.status_first
    (event,) = [event for event in decision.events if event.reason == "YieldedNodes"]
    assert "job team/other, which comes first, waits for nodes too" in event.message
    assert "preRunningDeadlineSeconds (60 s)" in event.message
    assert decision.requeue_seconds is not None
    assert decision.requeue_seconds <= 10


def test_others_are_asked_about_only_when_it_matters() -> None:
    """A thousand jobs that are being placed look at nobody."""
    assert not look(LATER, rivals=None).ask_rivals
    assert look(LONG, rivals=None).ask_rivals
    assert not look(LONG, rivals=None, pods=(pod(0), pod(1))).ask_rivals


@pytest.mark.parametrize(
    ("seconds", "rivals", "expected"),
    [
        pytest.param(LONG + 20, (rival(),), None, id="while-the-other-waits"),
        pytest.param(LONG + 20, None, None, id="not-known-yet"),
        pytest.param(LONG + 20, (), 2, id="the-other-has-its-nodes-or-is-gone"),
        pytest.param(LONG + int(2 * BACK_OFF_SECONDS), (rival(),), 2, id="after-a-while"),
    ],
)
def test_when_it_tries_again(seconds: int, rivals: tuple[Rival, ...] | None, expected: int | None) -> None:
    """Not before there is hope, and not never."""
    gone = look(LONG, rivals=(rival(),)).status
    decision = look(seconds, rivals=rivals, pods=(), status=gone, replicas=0)
    assert replicas(decision) == expected
    if expected is None:
        assert placed(decision) == ("Unknown", "YieldedNodes")
        assert decision.ask_rivals
    else:
        assert placed(decision) == ("False", "Creating")


def test_pods_taken_away_are_no_preemption() -> None:
    """Those of the next try have other UIDs, and nobody else took the first away."""
    gone = look(LONG, rivals=(rival(),)).status
    back = look(LONG, rivals=(), pods=(), status=gone, replicas=0).status
    again = look(LONG + 5, pods=(pod(0, uid="second"), pending_pod(1)), status=back).status
    assert again["restarts"]["preemptions"] == 0
