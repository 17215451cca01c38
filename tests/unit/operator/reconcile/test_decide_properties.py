"""Whatever pods and launchers show: a decision comes out, its status is valid, and it comes to rest."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from xeontrain_operator.api.crd import structural_schema
from xeontrain_operator.api.schema_check import schema_problems
from xeontrain_operator.launcher_client import LauncherError, read_status
from xeontrain_operator.reconcile.decide import decide
from xeontrain_operator.reconcile.decision import Create, Decision
from xeontrain_operator.reconcile.observed import LauncherReport, Observed, WorkerAnswer

from tests.unit.operator.sample import (
    NOW,
    SETTINGS,
    at,
    children,
    job_document,
    pending_pod,
    pod,
    report,
    result,
    stamp,
    terminated,
    waiting,
)

Document = dict[str, Any]
STATUS_SCHEMA = structural_schema()["properties"]["status"]

_huge = st.sampled_from([0, 1, -1, 2**31, 2**53, 10**400, 1.5, 1e308, "x", None, True, []])
_texts = st.sampled_from(["", "x" * 5000, "\x1b[31mred", "\ud800 half", "{who} {0}", "a\nb"])
_messages = st.one_of(
    _texts,
    st.builds(lambda n: result(round=n, failures=n, metrics={"loss": n, "m" * 300: 1}), _huge),
    st.builds(lambda t: result(outcome="Failed", model=t, failure={"reason": t, "message": t}), _texts),
    st.builds(lambda n: result(outcome="Failed", failure={"worker": n, "rank": n, "exitCode": n}), _huge),
    st.builds(lambda n: result(failure=n, metrics=n, model=n), _huge),
)
_reasons = st.sampled_from(
    ["ErrImagePull", "CrashLoopBackOff", "ContainerCreating", "CreateContainerError", "Whatever"]
)
_states = st.one_of(
    st.just({"running": {}}),
    st.just({"running": {"startedAt": stamp()}}),
    st.just({}),
    st.builds(waiting, _reasons, _texts),
    st.builds(lambda text, code: terminated(text, code=code), _messages, st.integers(0, 255)),
)
_pod_status = st.sampled_from(
    [
        {},
        {"qosClass": "Burstable"},
        {"phase": "Failed", "reason": "SMTAlignmentError", "message": "x" * 9000},
        {"phase": "Failed", "reason": "Evicted"},
        {"containerStatuses": None},
    ]
)
_pods = st.one_of(
    st.builds(
        lambda uid, state, last, restarts, deleted, status: {
            "uid": uid,
            "state": state,
            "last_state": last,
            "restarts": restarts,
            "deleted": deleted,
            "status": status,
        },
        st.sampled_from(["pod-0", "pod-1", "new"]),
        _states,
        st.one_of(st.none(), _states),
        st.integers(0, 5),
        st.sampled_from([None, None, stamp(-100), stamp(100)]),
        _pod_status,
    ),
    st.none(),
    st.just("pending"),
)
_numbers = st.sampled_from([0, 1, 79, 125, 2**31, 2**53 - 1])
_amounts = st.sampled_from([None, 0, 0.1234567, 83.2, 1e300])
_progress = st.one_of(
    st.none(),
    st.builds(
        lambda step, total, amount, time: {
            "step": step,
            "totalSteps": total,
            "epoch": amount,
            "loss": amount,
            "samplesPerSecond": amount,
            "etaSeconds": amount,
            "precision": "B" * 500,
            "time": time,
        },
        _numbers,
        st.one_of(st.none(), _numbers),
        _amounts,
        st.sampled_from([stamp(), "yesterday", "9" * 300]),
    ),
)
_failures = st.lists(
    st.builds(
        lambda identity, text: {"id": identity, "round": 1, "worker": 1, "message": text},
        st.sampled_from(["pod-0/1", "pod-0/2", "other/9", "x", "pod-0/" + "9" * 300, "pod-0/٣"]),
        st.sampled_from(["", "ValueError: x", "y" * 5000]),
    ),
    max_size=4,
)
_cpus = st.builds(
    lambda count, text, exclusive: {
        "model": text,
        "instructionSet": text,
        "cpus": text,
        "ranks": count,
        "coresPerRank": count,
        "exclusive": exclusive,
        "reason": text,
        "message": text,
    },
    _numbers,
    st.sampled_from(["x", "y" * 900]),
    st.sampled_from(["True", "False", "Unknown"]),
)


_troubles = st.one_of(
    st.none(),
    st.builds(
        lambda reason, text, seconds: {"reason": reason, "message": text, "seconds": seconds},
        st.sampled_from(["NameNotFound", "TimedOut", "x" * 900]),
        st.sampled_from(["{who}", "y" * 900]),
        _amounts,
    ),
)
_stragglers = st.one_of(
    st.none(),
    st.builds(
        lambda ranks, count, seconds: {"ranks": ranks, "count": count, "seconds": seconds},
        st.lists(_numbers, max_size=20),
        _numbers,
        _amounts,
    ),
)


@st.composite
def _answers(draw: st.DrawFn) -> dict[int, WorkerAnswer]:
    """What workers say of themselves, or why they could not be asked."""
    found = {}
    for worker in draw(st.sets(st.integers(0, 1), max_size=2)):
        status = draw(st.one_of(st.none(), st.builds(lambda trouble: {"trouble": trouble}, _troubles)))
        found[worker] = WorkerAnswer(
            worker=worker,
            pod_uid=draw(st.sampled_from([f"pod-{worker}", "new"])),
            asked_at=draw(st.sampled_from([NOW, at(-1), at(690)])),
            status=status,
            error=None if status is not None else draw(_texts),
        )
    return found


@st.composite
def _reports(draw: st.DrawFn) -> LauncherReport | None:
    """Only answers that pass the client's own validation come to a decision."""
    state = draw(st.sampled_from(["Waiting", "Starting", "Running", "Stopping", "Parked"]))
    members = [
        {
            "worker": worker,
            "podUid": draw(st.sampled_from([f"pod-{worker}", "ghost"])),
            "state": draw(st.sampled_from([state, "Stopping"])),
            "cpu": draw(_cpus),
            "lastSeenSeconds": draw(_amounts),
            "stateSeconds": draw(_amounts),
        }
        for worker in draw(st.sets(st.integers(0, 5), max_size=3))
    ]
    given = report(
        state=state,
        members=members,
        missing=draw(st.lists(st.integers(0, 511), max_size=40)),
        progress=draw(_progress),
        failures=draw(_failures),
        cpu=draw(_cpus),
        trouble=draw(_troubles),
        stragglers=draw(_stragglers),
        verdict=draw(st.one_of(st.none(), st.builds(json.loads, st.sampled_from([result()])))),
    )
    try:
        status = read_status(json.dumps(given.status).encode())
    except LauncherError:
        return None
    return LauncherReport(status=status, asked_at=NOW)


def _made(worker: int, choice: Any) -> tuple[Document, ...]:
    if choice is None:
        return ()
    return (pending_pod(worker),) if choice == "pending" else (pod(worker, **choice),)


def _checked(document: Document, observed: Observed, seconds: float) -> Decision:
    """A decision whose status would be taken by the API server."""
    decision = decide(observed, settings=SETTINGS, now=at(seconds))
    assert schema_problems(decision.status, schema=STATUS_SCHEMA) == []
    json.dumps(decision.status, allow_nan=False)
    for event in decision.events:
        assert event.message
    document["status"] = decision.status
    return decision


_SPECS = st.sampled_from(
    [
        {},
        {"pinning": "Required"},
        {"storage": None, "runPolicy": {"backoffLimit": 0, "cleanPodPolicy": "All"}},
        {"command": ["true"], "runPolicy": {"suspend": True}},
        {"nodePool": "xeon", "runPolicy": {"cleanPodPolicy": "None", "ttlSecondsAfterFinished": 0}},
    ]
)


@given(
    spec=_SPECS,
    looks=st.lists(
        st.tuples(_pods, _pods, _reports(), st.booleans(), _answers(), st.sampled_from([None, "silent"])),
        min_size=1,
        max_size=4,
    ),
    seconds=st.sampled_from([0, 5, 700, 100_000]),
)
@settings(max_examples=40, deadline=None)
def test_every_look_gives_a_valid_status_that_comes_to_rest(
    spec: Document, looks: list[Any], seconds: int
) -> None:
    """After any history: no exception, and no status that would be refused. The same look again and again
    ends in a status that stays, with no event; a job that has ended stays ended, and builds nothing."""
    document = job_document(spec=spec)
    decided = _checked(document, Observed(job=document), 0)
    ended: str | None = None
    for first, second, launcher, has_children, answers, error in looks:
        there = children(document) if has_children else {}
        observed = Observed(
            job=document,
            pods=(*_made(0, first), *_made(1, second)),
            launcher=launcher,
            launcher_error=error,
            answers=answers,
            **there,
        )
        for _ in range(3):
            decided = _checked(document, observed, seconds)
            phase = decided.status["phase"]
            assert ended is None or phase == ended
            if ended is not None:
                assert not any(isinstance(action, Create) for action in decided.actions)
            ended = phase if phase in ("Succeeded", "Failed") else None
        again = _checked(document, observed, seconds)
        assert again.status == decided.status
        assert again.events == ()
    assert decided.status["observedGeneration"] == 1
