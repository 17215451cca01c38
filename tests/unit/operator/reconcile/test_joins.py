"""A gang that does not come together: named in seconds, counted once, its pods replaced, ended in time."""

from __future__ import annotations

from typing import Any

import pytest
from xeontrain_operator.reconcile.decision import Decision, DeletePod
from xeontrain_operator.reconcile.observed import LauncherReport, WorkerAnswer

from tests.unit.operator.reconcile.test_decide_life import Life, conditions, message, reasons
from tests.unit.operator.sample import UID, at, cpu, pod, report, stamp

Document = dict[str, Any]

TIMEOUT = 60
NO_NAME = {
    "reason": "NameNotFound",
    "message": "the name mail-0. is not known: no such name",
    "seconds": 70.0,
}
BLOCKED = {"reason": "TimedOut", "message": "10.0.0.7 port 29400: no answer in time", "seconds": 70.0}


def running(seconds: float = 0) -> Document:
    """A container's state: it runs since then."""
    return {"running": {"startedAt": stamp(seconds)}}


def pods(*, workers: int = 2, **of_last: Any) -> tuple[Document, ...]:
    """All run since the beginning; more about the last."""
    last = {"state": running(), **of_last}
    return (*(pod(worker, state=running()) for worker in range(workers - 1)), pod(workers - 1, **last))


def heard(*missing: int, seconds: float, workers: int = 2, **more: Any) -> LauncherReport:
    """What worker 0 said at that time: whom it misses."""
    members = [
        {"worker": w, "podUid": f"pod-{w}", "state": "Waiting", "round": 0, "cpu": cpu()}
        for w in range(workers)
        if w not in missing
    ]
    fields = {"state": "Waiting", "members": members, "missing": list(missing), "round": 0, **more}
    return LauncherReport(status=report(workers=workers, **fields).status, asked_at=at(seconds))


def answer(worker: int, *, seconds: float, trouble: Document | None = None, **more: Any) -> WorkerAnswer:
    """What a worker's own launcher said at that time."""
    known = {"contract": 1, "jobUid": UID, "worker": worker, "podUid": f"pod-{worker}", "state": "Waiting"}
    status = {**known, **({"trouble": trouble} if trouble else {})}
    values = {"pod_uid": f"pod-{worker}", "status": status, **more}
    return WorkerAnswer(worker=worker, asked_at=at(seconds), **values)


def answers(*given: WorkerAnswer) -> dict[int, WorkerAnswer]:
    """By worker."""
    return {item.worker: item for item in given}


def new_life(**policy: Any) -> Life:
    """A job whose children are there."""
    spec = {"distributed": {"timeoutSeconds": TIMEOUT}, "runPolicy": policy}
    life = Life(spec=spec)
    life.decide()
    life.started(pods=pods())
    return life


def _failures(decision: Decision) -> tuple[int, int]:
    return decision.status["restarts"]["failures"], decision.status["restarts"]["preemptions"]


def _deleted(decision: Decision) -> list[str]:
    return [action.uid for action in decision.actions if isinstance(action, DeletePod)]


def test_a_missing_worker_is_asked_and_quoted_long_before_its_time_is_over() -> None:
    """After 20 s its own launcher is asked, and what it says stands in the condition; nothing is counted."""
    life = new_life()
    life.seconds = 10
    early = life.started(pods=pods(), launcher=heard(1, seconds=10))
    assert early.ask_workers == ()
    assert message(early, "Running") == "Waiting for 1 of 2 workers to join: 1."
    life.seconds = 21
    assert life.started(pods=pods(), launcher=heard(1, seconds=21)).ask_workers == (1,)
    known = answers(answer(1, seconds=25, trouble=NO_NAME))
    life.seconds = 26
    decision = life.started(pods=pods(), launcher=heard(1, seconds=26), answers=known)
    assert conditions(decision)["Running"] == ("False", "WaitingForWorkers")
    assert message(decision, "Running") == (
        "Waiting for 1 of 2 workers to join: 1 (worker 1: the name mail-0. is not known: no such name)."
    )
    assert (_failures(decision), _deleted(decision), decision.ask_workers) == ((0, 0), [], (1,))


def late(life: Life, given: WorkerAnswer) -> Decision:
    """The decision when worker 1 has been missing for too long."""
    life.seconds = TIMEOUT + 1
    return life.started(pods=pods(), launcher=heard(1, seconds=TIMEOUT + 1), answers=answers(given))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            answer(1, seconds=TIMEOUT, trouble=NO_NAME),
            ["its launcher says NameNotFound: the name mail-0. is not known", "cluster's DNS"],
        ),
        (answer(1, seconds=TIMEOUT, trouble=BLOCKED), ["TimedOut: 10.0.0.7", "port 29400 between"]),
        (
            answer(1, seconds=TIMEOUT, trouble={**BLOCKED, "reason": "NotTheGang"}),
            ["what else has worker 0's address"],
        ),
        (answer(1, seconds=TIMEOUT, trouble={"reason": "New", "message": "x {y}"}), ["says New: x {y}."]),
        (answer(1, seconds=TIMEOUT), ["hears a worker 0"]),
        (
            answer(1, seconds=TIMEOUT, status=None, error="/status did not answer in time"),
            ["does not answer the operator either: /status did not answer in time.", "Check that node"],
        ),
    ],
    ids=["no-name", "blocked", "another-job", "unknown-reason", "no-trouble", "does-not-answer"],
)
def test_a_worker_whose_time_is_over_is_a_failure_and_its_pod_goes(
    given: WorkerAnswer, words: list[str]
) -> None:
    """On record before the pod is deleted, in a sentence that names worker, pod, node, limit, reason and
    remedy; one event."""
    decision = late(new_life(), given)
    assert (_failures(decision), _deleted(decision)) == ((1, 0), ["pod-1"])
    assert decision.status_first
    assert conditions(decision)["Running"] == ("False", "WorkerNotJoined")
    said = message(decision, "Running")
    assert said.startswith(
        "Worker 1 (pod mail-1 on node node-1) has not joined the others for "
        "spec.distributed.timeoutSeconds (60 s): "
    )
    assert all(word in said for word in words)
    assert said.endswith(" Its pod is deleted, and another takes its place.")
    assert decision.status["restarts"]["lastReason"] == said
    assert reasons(decision) == ["WorkerNotJoined"]


def test_it_is_counted_once_however_long_its_pod_stays() -> None:
    """The same look again deletes and does not count; nor does the pod on its way out, nor the next one."""
    life = new_life()
    late(life, answer(1, seconds=TIMEOUT, trouble=NO_NAME))
    again = late(life, answer(1, seconds=TIMEOUT, trouble=NO_NAME))
    assert (_failures(again), _deleted(again), again.events) == ((1, 0), ["pod-1"], ())
    leaving = life.started(pods=pods(deleted=stamp(100)), launcher=heard(1, seconds=TIMEOUT + 2))
    assert (_failures(leaving), _deleted(leaving)) == ((1, 0), [])
    assert conditions(leaving)["Running"] == ("False", "WorkerNotJoined")
    next_pods = pods(uid="next", state=running(TIMEOUT + 5))
    life.seconds = TIMEOUT + 6
    new = life.started(pods=next_pods, launcher=heard(1, seconds=TIMEOUT + 6))
    assert (_failures(new), new.ask_workers) == ((1, 0), ())
    assert "removedPodUid" not in new.status["workerStatuses"][1]
    life.seconds = 2 * TIMEOUT + 7
    given = answers(answer(1, seconds=life.seconds - 1, trouble=NO_NAME, pod_uid="next"))
    second = life.started(pods=next_pods, launcher=heard(1, seconds=life.seconds), answers=given)
    assert (_failures(second), _deleted(second)) == ((2, 0), ["next"])


def test_backoff_limit_ends_the_job_with_worker_node_reason_and_remedy() -> None:
    """The last of too many is the job's end."""
    life = new_life(backoffLimit=0)
    decision = late(life, answer(1, seconds=TIMEOUT, trouble=BLOCKED))
    assert conditions(decision)["Failed"] == ("True", "BackoffLimitExceeded")
    said = message(decision, "Failed")
    for word in ("1 failure", "Worker 1", "node node-1", "TimedOut", "network policies"):
        assert word in said


@pytest.mark.parametrize(
    ("given", "launcher", "shown"),
    [
        ((), heard(1, seconds=TIMEOUT + 1), pods()),
        ((answer(1, seconds=TIMEOUT + 2, trouble=NO_NAME),), heard(1, seconds=TIMEOUT + 1), pods()),
        (
            (answer(1, seconds=TIMEOUT, trouble=NO_NAME, pod_uid="old"),),
            heard(1, seconds=TIMEOUT + 1),
            pods(),
        ),
        ((answer(1, seconds=-60, trouble=NO_NAME),), heard(1, seconds=TIMEOUT + 1), pods()),
        ((answer(1, seconds=TIMEOUT, trouble=NO_NAME),), heard(seconds=TIMEOUT + 1), pods()),
        (
            (answer(1, seconds=TIMEOUT, trouble=NO_NAME),),
            heard(1, seconds=TIMEOUT + 1),
            pods(state=running(30)),
        ),
        (
            (answer(1, seconds=TIMEOUT, trouble=NO_NAME),),
            heard(1, seconds=TIMEOUT + 1),
            pods(state={"waiting": {"reason": "ContainerCreating"}}),
        ),
        ((answer(1, seconds=TIMEOUT, trouble=NO_NAME),), heard(0, 1, seconds=TIMEOUT + 1), pods()),
    ],
    ids=[
        "not-asked-yet",
        "worker-0-not-asked-since",
        "another-pods-answer",
        "an-old-answer",
        "joined-meanwhile",
        "container-is-younger",
        "not-all-run",
        "worker-0-starts",
    ],
)
def test_nothing_is_counted_without_proof(
    given: tuple[WorkerAnswer, ...], launcher: LauncherReport, shown: tuple[Document, ...]
) -> None:
    """The worker was asked, and worker 0 has missed it after that, while all containers ran long enough."""
    life = new_life()
    life.seconds = TIMEOUT + 1
    decision = life.started(pods=shown, launcher=launcher, answers=answers(*given))
    assert (_failures(decision), _deleted(decision)) == ((0, 0), [])


def test_a_worker_that_fell_silent_has_its_time_from_then_on() -> None:
    """An hour of training before does not count against it."""
    life = new_life()
    seen = [{"worker": w, "podUid": f"pod-{w}", "state": "Waiting", "cpu": cpu()} for w in range(2)]
    seen[1]["lastSeenSeconds"] = 40.0
    life.seconds = 3600
    launcher = heard(1, seconds=3595, members=seen)
    known = answers(answer(1, seconds=3590, trouble=BLOCKED))
    decision = life.started(pods=pods(), launcher=launcher, answers=known)
    assert (_failures(decision), decision.ask_workers) == ((0, 0), (1,))
    life.seconds = 3616
    known = answers(answer(1, seconds=3610, trouble=BLOCKED))
    launcher = heard(1, seconds=3615, members=[seen[0], {**seen[1], "lastSeenSeconds": 60.0}])
    decision = life.started(pods=pods(), launcher=launcher, answers=known)
    assert (_failures(decision), _deleted(decision)) == ((1, 0), ["pod-1"])


def test_ranks_that_do_not_end_are_named_and_their_pod_goes() -> None:
    """A process that no signal ends (its file system hangs) keeps the next round from opening."""
    life = new_life()
    members = [{"worker": w, "podUid": f"pod-{w}", "state": "Waiting", "cpu": cpu()} for w in range(2)]
    members[1] |= {"state": "Stopping", "stateSeconds": 30.0}
    life.seconds = 100
    waits = life.started(pods=pods(), launcher=heard(seconds=100, members=members))
    assert "worker 1: its ranks of the round before do not end" in message(waits, "Running")
    assert (waits.ask_workers, _deleted(waits)) == ((), [])
    members[1]["stateSeconds"] = 61.0
    decision = life.started(pods=pods(), launcher=heard(seconds=100, members=members))
    assert (_failures(decision), _deleted(decision)) == ((1, 0), ["pod-1"])
    assert "file system" in message(decision, "Running")


def test_another_pod_in_a_workers_place_counts_as_missing() -> None:
    """An earlier pod of the worker lives on a node that is cut off, and its clock is ahead."""
    life = new_life()
    members = [{"worker": w, "podUid": f"pod-{w}", "state": "Running", "cpu": cpu()} for w in range(2)]
    members[1]["podUid"] = "ghost"
    trouble = {"reason": "Superseded", "message": "a pod that started later has this worker's place"}
    life.seconds = TIMEOUT + 1
    decision = life.started(
        pods=pods(),
        launcher=heard(seconds=TIMEOUT + 1, members=members),
        answers=answers(answer(1, seconds=TIMEOUT, trouble=trouble)),
    )
    assert (_failures(decision), _deleted(decision)) == ((1, 0), ["pod-1"])
    assert "a pod that started later has this worker's place" in message(decision, "Running")


def test_many_that_are_missing_at_once_are_one_failure() -> None:
    """They have one cause: three are named, the rest are counted in words, sixteen at most are replaced."""
    life = Life(spec={"workers": 30, "distributed": {"timeoutSeconds": TIMEOUT}})
    life.decide()
    everyone, missing = pods(workers=30), range(1, 30)
    life.started(pods=everyone)
    life.seconds = TIMEOUT + 1
    launcher = heard(*missing, seconds=TIMEOUT + 1, workers=30)
    asked = life.started(pods=everyone, launcher=launcher).ask_workers
    assert asked == tuple(range(1, 17))
    known = answers(*(answer(worker, seconds=TIMEOUT, trouble=BLOCKED) for worker in asked))
    decision = life.started(pods=everyone, launcher=launcher, answers=known)
    assert _failures(decision) == (1, 0)
    assert len(_deleted(decision)) == 16
    said = message(decision, "Running")
    assert "Worker 3 (pod mail-3" in said
    assert "Worker 4 (" not in said
    assert "So have 13 more workers." in said
    assert len(decision.status["restarts"]["lastReason"]) <= 1024


SILENCE = "/status did not answer in time"


def silent(life: Life, *given: WorkerAnswer, zero: Document | None = None, **more: Any) -> Decision:
    """Worker 0 has last answered at second 10, and not since."""
    shown = (zero or pod(0, state=running()), pod(1, state=running()))
    return life.started(
        pods=shown,
        launcher=heard(seconds=10, state="Running"),
        launcher_error=SILENCE,
        answers=answers(*given),
        **more,
    )


@pytest.mark.parametrize(
    ("given", "ready_since", "counts"),
    [
        ((answer(1, seconds=70, trouble=BLOCKED),), None, True),
        ((answer(1, seconds=70, trouble=NO_NAME),), None, False),
        ((answer(1, seconds=70, trouble={**BLOCKED, "seconds": 3.0}),), None, False),
        ((answer(1, seconds=5, trouble=BLOCKED),), None, False),
        ((answer(1, seconds=70),), None, False),
        ((answer(1, seconds=70, status=None, error=SILENCE),), None, False),
        ((), 5, True),
        ((), 30, False),
    ],
    ids=[
        "another-worker-says-so",
        "only-its-name-is-missing",
        "only-just-now",
        "long-ago",
        "another-worker-hears-it",
        "nobody-is-heard",
        "its-probe-fails",
        "its-probe-fails-only-now",
    ],
)
def test_a_silent_worker_0_is_replaced_only_with_proof(
    given: tuple[WorkerAnswer, ...], ready_since: float | None, *, counts: bool
) -> None:
    """The operator may be the one that is cut off: another worker, or the kubelet's probe, has to say the
    same."""
    life = new_life()
    life.seconds = 75
    status = {}
    if ready_since is not None:
        ready = {"type": "Ready", "status": "False", "lastTransitionTime": stamp(ready_since)}
        status = {"conditions": [ready]}
    decision = silent(life, *given, zero=pod(0, state=running(), status=status))
    assert _failures(decision) == ((1, 0) if counts else (0, 0))
    assert _deleted(decision) == (["pod-0"] if counts else [])
    assert decision.ask_workers == (1,)
    if counts:
        said = decision.status["restarts"]["lastReason"]
        assert said.startswith("Worker 0 (pod mail-0 on node node-0) has not answered for spec.distributed")
        assert SILENCE in said


def test_a_silent_worker_0_is_named_before() -> None:
    """And others are asked about it."""
    life = new_life()
    life.seconds = 35
    decision = life.started(pods=pods(), launcher_error=SILENCE)
    assert decision.ask_workers == (1,)
    assert message(decision, "Running") == (
        "Waiting for 1 of 2 workers to join: 0 (worker 0: its launcher does not answer the operator: "
        f"{SILENCE})."
    )
    assert decision.requeue_seconds is not None


def test_what_keeps_worker_0_from_beginning_is_named() -> None:
    """Its own storage, in its launcher's words."""
    life = new_life()
    life.seconds = 5
    trouble = {"reason": "NotWritable", "message": "spec.storage: /x cannot be written: full", "seconds": 3.0}
    for launcher in (heard(seconds=5, trouble=trouble), heard(0, 1, seconds=5, trouble=trouble)):
        decision = life.started(pods=pods(), launcher=launcher)
        assert conditions(decision)["Running"] == ("False", "WorkerNotReady")
        assert message(decision, "Running") == "Worker 0: spec.storage: /x cannot be written: full."


@pytest.mark.parametrize(
    ("stragglers", "words"),
    [
        ({"ranks": [3], "count": 1, "seconds": 59.0}, "All 2 workers train."),
        (
            {"ranks": [3], "count": 1, "seconds": 610.0},
            "Rank 3 still runs; others have ended with success 10m ago",
        ),
        (
            {"ranks": [3, 4], "count": 2, "seconds": 119.0},
            "Ranks 3, 4 still run; others have ended with success 1m ago",
        ),
        (
            {"ranks": list(range(16)), "count": 40, "seconds": 8000.0},
            "13, 14, 15 and 24 more still run; others have ended with success 2h",
        ),
    ],
    ids=["a-moment", "one", "two", "many"],
)
def test_ranks_that_others_wait_for_are_named(stragglers: Document, words: str) -> None:
    """Running stays True, with a reason of its own and one warning; time alone changes the words seldom."""
    life = Life()
    life.train()
    decision = life.started(launcher=report(stragglers=stragglers))
    assert words in message(decision, "Running")
    named = stragglers["seconds"] >= 60
    assert conditions(decision)["Running"] == ("True", "WaitingForRanks" if named else "Training")
    assert reasons(decision) == (["WaitingForRanks"] if named else [])
    later = {**stragglers, "seconds": stragglers["seconds"] + 0.5}
    assert life.started(launcher=report(stragglers=later)).status == decision.status
