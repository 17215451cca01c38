"""A job's life, decision by decision: what is made, said and asked at each stage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from xeontrain_operator.reconcile.decide import decide
from xeontrain_operator.reconcile.decision import (
    Create,
    Decision,
    Delete,
    DeletePod,
    KeepLog,
    PatchTemplate,
    Scale,
)
from xeontrain_operator.reconcile.observed import Observed

from tests.unit.operator.sample import (
    SET_UID,
    SETTINGS,
    UID,
    at,
    children,
    failed_result,
    failure,
    job_document,
    pod,
    report,
    result,
    stamp,
    terminated,
    waiting,
)

Document = dict[str, Any]


class Life:
    """A job and its cluster, moved on by what each decision says."""

    def __init__(self, **document: Any) -> None:
        self.document = job_document(**document)
        self.seconds = 0.0

    def decide(self, **observed: Any) -> Decision:
        """One reconcile of what is observed; the status is taken over."""
        decision = decide(Observed(job=self.document, **observed), settings=SETTINGS, now=at(self.seconds))
        self.document["status"] = decision.status
        return decision

    def started(self, **observed: Any) -> Decision:
        """The same, with all children and two running pods."""
        given = {"pods": (pod(0), pod(1)), **children(self.document), **observed}
        return self.decide(**given)

    def train(self) -> None:
        """To the phase Running."""
        self.decide()
        self.started()
        self.started(launcher=report())
        assert self.document["status"]["phase"] == "Running"


def conditions(decision: Decision) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition."""
    return {item["type"]: (item["status"], item["reason"]) for item in decision.status["conditions"]}


def message(decision: Decision, type_: str) -> str:
    """Message of one condition."""
    return str(next(item["message"] for item in decision.status["conditions"] if item["type"] == type_))


def reasons(decision: Decision) -> list[str]:
    """Reasons of the events, in order."""
    return [event.reason for event in decision.events]


def test_first_decision_makes_everything() -> None:
    """Accepted, all children in building order, nothing asked."""
    decision = Life().decide()
    assert [action.kind for action in decision.actions if isinstance(action, Create)] == [
        "Service",
        "ConfigMap",
        "NetworkPolicy",
        "StatefulSet",
    ]
    assert decision.status["phase"] == "Pending"
    assert decision.status["workers"]["display"] == "0/2"
    assert conditions(decision) == {
        "Accepted": ("True", "Valid"),
        "StorageReady": ("True", "Configured"),
        "Placed": ("Unknown", "Creating"),
        "Running": ("False", "Creating"),
        "CPUPinned": ("Unknown", "NotProven"),
    }
    assert reasons(decision) == ["Accepted", "WorkersCreated"]
    assert (decision.ask_launcher, decision.ask_events, decision.finished) == (False, False, False)


def test_running_workers_are_starting_until_the_launcher_says_more() -> None:
    """All containers run: the start time is now, and worker 0 is worth asking."""
    life = Life()
    life.decide()
    life.seconds = 3
    decision = life.started()
    assert decision.status["phase"] == "Starting"
    assert decision.status["startTime"] == stamp(3)
    assert conditions(decision)["Placed"] == ("True", "AllPlaced")
    assert decision.ask_launcher
    assert decision.actions == ()
    assert reasons(decision) == ["WorkersRunning"]


PROGRESS = {
    "step": 79,
    "totalSteps": 125,
    "epoch": 0.6312,
    "loss": 0.123456,
    "samplesPerSecond": 27.912,
    "etaSeconds": 83.2,
    "precision": "BF16",
    "backend": "Gloo",
    "time": "2026-03-01T12:00:07Z",
}


def test_training_shows_progress_in_round_numbers() -> None:
    """What the printer columns show, and each worker's node and CPUs."""
    life = Life()
    life.decide()
    life.started()
    decision = life.started(launcher=report(progress=PROGRESS))
    status = decision.status
    assert status["phase"] == "Running"
    assert status["progress"] == {
        "step": 79,
        "totalSteps": 125,
        "epoch": 0.63,
        "percent": 63,
        "loss": 0.1235,
        "samplesPerSecond": 27.9,
        "etaSeconds": 80,
        "etaDisplay": "1m20s",
        "display": "63% (79/125)",
        "updatedAt": "2026-03-01T12:00:07Z",
    }
    assert status["cpu"] == {
        "model": "Intel Xeon Platinum 8488C",
        "instructionSet": "AMX_BF16",
        "precision": "BF16",
        "backend": "Gloo",
        "ranks": 2,
        "coresPerRank": 7,
        "commCoresPerRank": 1,
        "mixed": False,
    }
    assert status["workerStatuses"][1] == {
        "worker": 1,
        "pod": "mail-1",
        "podUid": "pod-1",
        "node": "node-1",
        "state": "Running",
        "cpus": "0-7",
        "exclusive": "True",
        "restarts": 0,
    }
    assert conditions(decision)["CPUPinned"] == ("True", "Exclusive")
    assert conditions(decision)["Running"] == ("True", "Training")
    assert reasons(decision) == ["TrainingStarted", "CPUPinned"]


@pytest.mark.parametrize(
    ("change", "is_news"),
    [
        ({"time": "2026-03-01T12:00:12Z"}, False),
        ({"loss": 0.123461}, False),
        ({"etaSeconds": 81.0, "samplesPerSecond": 27.94}, False),
        ({"step": 80}, True),
        ({"loss": 0.1240}, True),
    ],
    ids=["time-alone", "fifth-digit", "estimates-within-rounding", "step", "loss"],
)
def test_status_changes_only_where_a_person_would_see_it(change: Document, is_news: bool) -> None:
    """Otherwise it is equal to the old one, and nothing is written."""
    life = Life()
    life.train()
    before = life.started(launcher=report(progress=PROGRESS))
    life.seconds = 30
    after = life.started(launcher=report(progress={**PROGRESS, **change}))
    assert (after.status != before.status) is is_news


def test_silent_launcher_changes_nothing_while_the_job_runs() -> None:
    """A poll that fails is no news of the job."""
    life = Life()
    life.train()
    before = life.document["status"]
    life.seconds = 60
    assert life.started(launcher_error="/status did not answer in time").status == before


def test_silent_launcher_is_named_while_the_job_starts() -> None:
    """Otherwise a fence between operator and pods would look like a start without end."""
    life = Life()
    life.decide()
    life.started()
    life.seconds = 30
    decision = life.started(launcher_error="/status did not answer in time")
    assert "does not answer the operator: /status did not answer in time" in message(decision, "Running")


def test_missing_workers_are_named() -> None:
    """All containers run, one launcher has not joined: it is not ready, and the condition says which."""
    life = Life()
    life.decide()
    life.started()
    decision = life.started(launcher=report(state="Waiting", missing=[1]))
    assert decision.status["workers"] == {"desired": 2, "ready": 1, "display": "1/2"}
    assert conditions(decision)["Running"] == ("False", "WaitingForWorkers")
    assert message(decision, "Running") == "Waiting for 1 of 2 workers to join: 1."


def _ended_pods(text: str) -> tuple[Document, ...]:
    return (pod(0, state=terminated(text)), pod(1))


@pytest.mark.parametrize(
    "where",
    [
        {"pods": _ended_pods(result())},
        {"pods": (pod(0, last_state=terminated(result()), restarts=1), pod(1))},
        {"pods": (pod(0, last_state=terminated(result(), code=1), restarts=2), pod(1))},
        {"launcher": report(state="Parked", verdict=json.loads(result()))},
    ],
    ids=["state", "last-state", "parked-container-ended-again", "launchers-answer"],
)
def test_verdict_is_found_wherever_it_stands(where: Document) -> None:
    """By the document alone: exit codes play no part. The end is written before anything is cleaned."""
    life = Life()
    life.train()
    life.seconds = 3600
    decision = life.started(**where)
    assert decision.status["phase"] == "Succeeded"
    assert decision.status["completionTime"] == stamp(3600)
    assert decision.status["result"] == {
        "metrics": {"accuracy": 0.97},
        "model": f"xeontrain-storage-mail-0:mail-{UID[:8]}/model",
        "log": f"mail-log-{UID[:8]}",
    }
    assert decision.status["usage"] == {"coreHours": 16.0}
    assert conditions(decision)["Succeeded"] == ("True", "AllRanksSucceeded")
    assert conditions(decision)["Running"] == ("False", "Finished")
    assert decision.status_first
    assert decision.actions == ()
    assert decision.requeue_seconds == 0
    assert reasons(decision) == ["Succeeded"]
    assert "accuracy 0.97. The model is in" in decision.events[0].message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not JSON",
        "[1, 2]",
        result(jobUid="another"),
        result(contract=2),
        result(worker=1),
        result(outcome="Perhaps"),
    ],
    ids=["empty", "text", "list", "another-job", "another-contract", "another-worker", "no-outcome"],
)
def test_what_is_no_verdict_ends_nothing(text: str) -> None:
    """An exit 0 without this job's document is an end of a container, and counts as one."""
    life = Life()
    life.train()
    decision = life.started(pods=_ended_pods(text))
    assert decision.status["phase"] == "Restarting"
    assert decision.status["restarts"]["failures"] == 1


def test_worker_one_cannot_pass_a_verdict() -> None:
    """Only worker 0's document counts."""
    life = Life()
    life.train()
    decision = life.started(pods=(pod(0), pod(1, state=terminated(result()))))
    assert decision.status["phase"] == "Restarting"


def test_success_completes_the_progress() -> None:
    """The last answer came before the last step; nobody shall read 97% of a job that has succeeded."""
    life = Life()
    life.train()
    life.started(launcher=report(progress={**PROGRESS, "step": 121}))
    progress = life.started(pods=_ended_pods(result())).status["progress"]
    assert (progress["display"], progress["etaDisplay"]) == ("100% (125/125)", "0s")


def test_failure_of_the_users_is_told_in_its_own_words() -> None:
    """Reason, worker, rank and the last line of what went wrong; both conditions, one event."""
    life = Life()
    life.train()
    text = failed_result("UserError", "column 'labell' is not in the data; columns are text, label")
    decision = life.started(pods=_ended_pods(text))
    assert decision.status["phase"] == "Failed"
    assert conditions(decision)["Failed"] == ("True", "UserError")
    assert conditions(decision)["Succeeded"] == ("False", "UserError")
    assert message(decision, "Failed") == (
        "worker 1 on node node-1, rank 1, exit code 78: column 'labell' is not in the data; "
        "columns are text, label."
    )
    assert decision.status["restarts"]["failures"] == 1
    assert reasons(decision) == ["Failed"]


def _finished(policy: str = "Running", **spec: Any) -> Life:
    life = Life(spec={"runPolicy": {"cleanPodPolicy": policy, **spec}})
    life.train()
    life.started(pods=_ended_pods(result()))
    return life


def test_children_are_cleaned_after_the_end_is_on_record() -> None:
    """The log first, then worker 0's pod, then the set with its pods; the event names the claims kept."""
    life = _finished()
    pods = _ended_pods(result())
    decision = life.started(pods=pods)
    first = pods[0]["metadata"]
    assert decision.actions == (
        KeepLog(name=f"mail-log-{UID[:8]}", workers=(0,)),
        DeletePod(name=first["name"], uid=first["uid"], grace_seconds=5),
        Delete(kind="StatefulSet", name="mail", uid=SET_UID),
    )
    assert reasons(decision) == ["CleanedUp"]
    assert "the claims xeontrain-storage-mail-0 to xeontrain-storage-mail-1 are kept" in message(
        decision, "Running"
    )
    assert not decision.finished


def test_log_of_the_worker_that_failed_is_kept_too() -> None:
    """That is where the cause stands."""
    life = Life()
    life.train()
    text = failed_result("UserError", "x")
    life.started(pods=_ended_pods(text))
    decision = life.started(pods=_ended_pods(text))
    assert decision.actions[0] == KeepLog(name=f"mail-log-{UID[:8]}", workers=(0, 1))


def test_finished_job_is_left_alone() -> None:
    """Terminal means terminal: with the set gone nothing is built, nothing is said, nothing is asked."""
    life = _finished()
    life.started(pods=_ended_pods(result()))
    before = life.document["status"]
    left = {**children(life.document), "stateful_set": None}
    leaving = (pod(0, deleted=stamp(100)),)
    assert not life.decide(pods=leaving, **left).finished
    decision = life.decide(**left)
    assert decision.actions == ()
    assert decision.status == before
    assert decision.events == ()
    assert decision.finished
    assert decision.requeue_seconds is None


def test_nothing_is_built_for_a_finished_job_whose_children_are_gone() -> None:
    """Not even where somebody has deleted everything by hand."""
    life = _finished()
    decision = life.decide()
    assert decision.actions == ()
    assert decision.finished


def test_policy_all_removes_the_rest_once_pods_are_gone() -> None:
    """The Service last: workers find each other by it until their end."""
    life = _finished("All")
    left = {**children(life.document), "stateful_set": None}
    assert life.decide(pods=(pod(0, deleted=stamp(100)),), **left).actions == ()
    decision = life.decide(**left)
    assert [(a.kind, a.name) for a in decision.actions if isinstance(a, Delete)] == [
        ("NetworkPolicy", "mail"),
        ("ConfigMap", "mail"),
        ("Service", "mail"),
    ]
    assert life.decide().finished


def test_policy_none_keeps_the_pods_and_makes_replaced_ones_park() -> None:
    """The template is patched once; the annotation tells that it was."""
    life = _finished("None")
    decision = life.started(pods=_ended_pods(result()))
    (action,) = decision.actions
    assert isinstance(action, PatchTemplate)
    assert action.template == {
        "spec": {"containers": [{"name": "trainer", "env": [{"name": "XEONTRAIN_PARK_ONLY", "value": "1"}]}]}
    }
    patched = children(life.document)
    patched["stateful_set"]["metadata"]["annotations"] |= action.annotations
    decision = life.started(**patched)
    assert decision.actions == ()
    assert decision.finished


def test_time_to_live_deletes_the_job_when_it_is_over() -> None:
    """A requeue at the very time; then the job itself, by its UID."""
    life = _finished(ttlSecondsAfterFinished=100)
    life.seconds = 40
    decision = life.decide()
    assert (decision.actions, decision.requeue_seconds, decision.finished) == ((), 60, True)
    life.seconds = 101
    assert life.decide().actions == (Delete(kind="XeonTrainJob", name="mail", uid=UID),)


def test_suspended_job_has_no_set_and_resumes_with_a_new_one() -> None:
    """Its set goes; nothing that happens to the pods meanwhile is counted; failures stay counted."""
    life = Life()
    life.train()
    life.started(launcher=report(failures=[failure(1)]))
    life.document["spec"]["runPolicy"] = {"suspend": True}
    life.seconds = 1800
    decision = life.started(launcher=report())
    assert decision.actions == (Delete(kind="StatefulSet", name="mail", uid=SET_UID),)
    assert decision.status["phase"] == "Suspended"
    assert conditions(decision)["Suspended"] == ("True", "SuspendedByUser")
    assert "startTime" not in decision.status
    assert reasons(decision) == ["Suspended"]
    assert not decision.ask_launcher

    life.document["spec"]["runPolicy"] = {"suspend": False}
    rest = {**children(life.document), "stateful_set": None}
    leaving = life.decide(pods=(pod(0, deleted=stamp(2000)),), **rest)
    assert leaving.actions == (), "old pods bear the names of the new set's"
    assert leaving.requeue_seconds is not None
    decision = life.decide(**rest)
    (action,) = decision.actions
    assert isinstance(action, Create)
    env = action.body["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "XEONTRAIN_FAILURES_COUNTED", "value": "1"} in env
    decision = life.started(pods=(pod(0, uid="new-0"), pod(1, uid="new-1")))
    assert decision.status["restarts"] == {
        "failures": 1,
        "preemptions": 0,
        "lastReason": "Round 1: worker 1 on node node-1, rank 1, exit code 1: ValueError: x.",
        "lastCounted": "pod-0/1",
        "display": "1",
    }


def test_job_that_is_made_suspended_gets_nothing() -> None:
    """Accepted, and no child."""
    decision = Life(spec={"runPolicy": {"suspend": True}}).decide()
    assert decision.actions == ()
    assert conditions(decision)["Accepted"] == ("True", "Valid")
    assert decision.status["phase"] == "Suspended"


@pytest.mark.parametrize("field", ["service", "network_policy", "config_map", "stateful_set"])
def test_absent_child_of_a_live_job_is_made_again(field: str) -> None:
    """Deleted by hand while the job runs."""
    life = Life()
    life.train()
    there = {**children(life.document), field: None}
    pods = () if field == "stateful_set" else (pod(0), pod(1))
    decision = life.decide(pods=pods, **there)
    (action,) = decision.actions
    assert isinstance(action, Create)


def test_orphaned_pods_are_adopted_by_a_new_set() -> None:
    """`kubectl delete statefulset --cascade=orphan`: the pods train on, so the set is made again at once."""
    life = Life()
    life.train()
    there = {**children(life.document), "stateful_set": None}
    decision = life.decide(pods=(pod(0, owner=None), pod(1, owner=None)), launcher=report(), **there)
    assert [action.kind for action in decision.actions if isinstance(action, Create)] == ["StatefulSet"]
    assert decision.status["phase"] == "Running"


def test_frozen_children_are_left_as_they_are() -> None:
    """After an upgrade of the operator, or an edit by hand, reconcile touches replicas only."""
    life = Life()
    life.train()
    there = children(life.document, replicas=1)
    there["stateful_set"]["spec"]["template"]["spec"]["containers"][0]["image"] = "edited"
    there["service"]["spec"]["ports"] = []
    decision = life.started(**there)
    assert decision.actions == (Scale(name="mail", uid=SET_UID, replicas=2),)


@pytest.mark.parametrize(
    "spec",
    [{"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}],
    ids=["managed-by-another"],
)
def test_job_of_another_controller_is_left_alone(spec: Mapping[str, Any]) -> None:
    """Neither status nor children."""
    decision = Life(spec=spec).decide()
    assert decision == Decision(status={})


def test_job_on_its_way_out_is_left_alone() -> None:
    """Its children go by garbage collection."""
    decision = Life(deletionTimestamp=stamp()).decide()
    assert decision == Decision(status={})


def test_earlier_jobs_children_are_waited_for() -> None:
    """A job made again under its name: what garbage collection will take is neither ours nor foreign."""
    life = Life()
    there = children(life.document)
    for child in there.values():
        child["metadata"]["ownerReferences"][0]["uid"] = "earlier"
    decision = life.decide(**there)
    assert decision.actions == ()
    assert conditions(decision)["Accepted"] == ("True", "Valid")
    assert "of an earlier job of this name" in message(decision, "Running")
    assert decision.requeue_seconds is not None


def test_start_on_a_container_still_creating_asks_for_warnings_only_after_a_while() -> None:
    """Most pods are on their way: a thousand jobs would be a thousand questions."""
    life = Life()
    life.decide()
    pods = (pod(0), pod(1, state=waiting("ContainerCreating")))
    life.seconds = 1
    early = life.started(pods=pods)
    assert (early.ask_events, early.requeue_seconds) == (False, 2)
    life.seconds = 4
    assert life.started(pods=pods).ask_events
