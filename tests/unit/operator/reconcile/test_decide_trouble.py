"""What goes wrong: refused, named with field, cause and remedy, counted once, ended in time."""

from __future__ import annotations

from typing import Any

import pytest
from xeontrain_operator.reconcile.decide import decide
from xeontrain_operator.reconcile.decision import Decision, DeletePod, Scale
from xeontrain_operator.reconcile.observed import ApplyError, Observed

from tests.unit.operator.reconcile.test_decide_life import Life, conditions, message, reasons
from tests.unit.operator.sample import (
    NOW,
    SET_UID,
    SETTINGS,
    children,
    failure,
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


def _claim(*modes: str, name: str = "models") -> Document:
    return {"kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {"accessModes": list(modes)}}


CLAIM = {"storage": {"size": None, "claim": "models"}}
FOREIGN = {"kind": "Service", "metadata": {"name": "mail", "uid": "x"}}
REFUSAL = ApplyError(
    kind="StatefulSet",
    name="mail",
    status_code=422,
    reason="Invalid",
    message="spec.template.spec.volumes[4].name: Duplicate value",
)


@pytest.mark.parametrize(
    ("spec", "observed", "reason", "words"),
    [
        ({}, {"service": FOREIGN}, "ForeignObject", ["metadata.name: Service mail", "another name"]),
        ({"nodePool": "gold"}, {}, "UnknownNodePool", ["spec.nodePool: 'gold'", "choose one of xeon"]),
        (
            {"nodePool": "xeon", "placement": {"nodeSelector": {"pool": "x"}}},
            {},
            "PlacementConflict",
            ["spec.placement", "label pool", "leave one of them out"],
        ),
        (CLAIM, {}, "ClaimNotFound", ["spec.storage.claim", "'models'", "storage.size"]),
        (
            CLAIM,
            {"claims": (_claim("ReadWriteOnce"),)},
            "ClaimNotReadWriteMany",
            ["models is ReadWriteOnce and 2 workers", "placement.spread: Packed"],
        ),
        (
            {**CLAIM, "placement": {"spread": "Packed"}},
            {"claims": (_claim("ReadWriteOncePod"),)},
            "ClaimNotReadWriteMany",
            ["ReadWriteOncePod"],
        ),
        ({}, {"apply_errors": (REFUSAL,)}, "RejectedByAPIServer", ["StatefulSet mail (422", "volumes[4]"]),
    ],
    ids=[
        "foreign-service",
        "unknown-pool",
        "pool-against-selector",
        "no-claim",
        "claim-of-one-node",
        "claim-of-one-pod",
        "refused-by-the-server",
    ],
)
def test_refusals(spec: Document, observed: Document, reason: str, words: list[str]) -> None:
    """Accepted=False at the first look, in words that name field, cause and remedy; nothing is made."""
    decision = Life(spec=spec).decide(**observed)
    assert conditions(decision)["Accepted"] == ("False", reason)
    assert all(word in message(decision, "Accepted") for word in words)
    assert decision.status["phase"] == "Pending"
    assert decision.actions == ()
    assert reasons(decision) == [reason]
    assert decision.events[0].type == "Warning"
    assert decision.requeue_seconds is not None


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            ApplyError(kind="Service", name="mail", status_code=403, reason="Forbidden", message="quota"),
            "refuses to create the Service mail (403 Forbidden): quota. Without it the workers do not find",
        ),
        (
            ApplyError(
                kind="Pod", name="mail-1", status_code=403, reason="Forbidden", message="no", verb="delete"
            ),
            "refuses to delete the Pod mail-1 (403 Forbidden): no. It is tried again.",
        ),
    ],
    ids=["made", "deleted"],
)
def test_refusal_beside_a_live_set_is_named(error: ApplyError, words: str) -> None:
    """The job stays accepted and runs on; a condition and one warning say what is refused, while it is."""
    life = Life()
    life.train()
    missing = {"service": None} if error.verb == "create" else {}
    decision = life.started(launcher=report(), apply_errors=(error,), **missing)
    assert conditions(decision)["ChildrenReady"] == ("False", "RejectedByAPIServer")
    assert conditions(decision)["Accepted"] == ("True", "Valid")
    assert words in message(decision, "ChildrenReady")
    assert reasons(decision) == ["RejectedByAPIServer"]
    assert decision.actions == ()
    again = life.started(launcher=report())
    assert conditions(again)["ChildrenReady"] == ("True", "AllMade")


@pytest.mark.parametrize(
    ("spec", "claim"),
    [
        (CLAIM, _claim("ReadWriteMany")),
        ({**CLAIM, "placement": {"spread": "Packed"}}, _claim("ReadWriteOnce")),
        ({**CLAIM, "workers": 1}, _claim("ReadWriteOnce")),
    ],
    ids=["many", "packed", "one-worker"],
)
def test_claims_that_serve(spec: Document, claim: Document) -> None:
    """What the workers can really mount together is accepted."""
    decision = Life(spec=spec).decide(claims=(claim,))
    assert conditions(decision)["Accepted"] == ("True", "Valid")


def test_refusal_ends_when_its_cause_does() -> None:
    """Level-triggered: the claim comes, the job goes on."""
    life = Life(spec=CLAIM)
    life.decide()
    decision = life.decide(claims=(_claim("ReadWriteMany"),))
    assert conditions(decision)["Accepted"] == ("True", "Valid")
    assert len(decision.actions) == 4


@pytest.mark.parametrize(
    ("spec", "condition", "expected"),
    [
        ({"storage": None}, "StorageReady", ("False", "NoStorage")),
        (
            {"workers": 3, "training": {"hyperparameters": {"batchSize": 16}}},
            "Accepted",
            ("True", "BatchNotDivisible"),
        ),
        ({"pinning": "Disabled"}, "CPUPinned", ("False", "Disabled")),
    ],
    ids=["no-storage", "uneven-batch", "pinning-disabled"],
)
def test_accepted_with_a_word_of_warning(spec: Document, condition: str, expected: tuple[str, str]) -> None:
    """The job runs; what may surprise is said at once."""
    decision = Life(spec=spec).decide()
    assert conditions(decision)[condition] == expected
    assert decision.actions != ()


def test_backend_of_a_script_is_its_own_affair() -> None:
    """The job is accepted, and the condition says who decides."""
    decision = Life(spec={"command": ["./train"], "distributed": {"backend": "CCL"}}).decide()
    assert conditions(decision)["Accepted"] == ("True", "Valid")
    assert "spec.distributed.backend is CCL, but a command chooses" in message(decision, "Accepted")


@pytest.mark.parametrize(
    "document",
    [
        {"spec": {"workers": "two"}},
        {"spec": {"resources": {"cpu": []}}},
        {"status": {"phase": "Dancing"}},
    ],
    ids=["text-for-a-number", "list-for-cpus", "unknown-phase"],
)
def test_unreadable_job_is_said_to_be_so(document: Document) -> None:
    """A job written past the schema: no exception, a condition that names the field."""
    broken = job_document(**document)
    decision = decide(Observed(job=broken), settings=SETTINGS, now=NOW)
    assert conditions(decision)["Accepted"] == ("False", "InvalidSpec")
    assert decision.actions == ()


def _event(reason: str, text: str, *, uid: str = SET_UID) -> Document:
    return {"reason": reason, "message": text, "involvedObject": {"uid": uid}, "lastTimestamp": stamp()}


def _refused_pod(worker: int, reason: str, text: str = "no") -> Document:
    status = {"phase": "Failed", "reason": reason, "message": text, "containerStatuses": []}
    return pod(worker, uid=f"refused-{worker}", status=status)


@pytest.mark.parametrize(
    ("pods", "events", "condition", "reason", "words"),
    [
        (
            (pod(0), pod(1, state=waiting("ErrImagePull", "not found"))),
            (),
            "Running",
            "ImagePullFailed",
            ["spec.image: registry.example/trainer:1", "worker 1", "not found", "imagePullSecrets"],
        ),
        (
            (pod(0, state=waiting("ImagePullBackOff", "x")), pod(1, state=waiting("ImagePullBackOff", "x"))),
            (),
            "Running",
            "ImagePullFailed",
            ["2 of 2 workers"],
        ),
        (
            (pod(0), pod(1, state=waiting("InvalidImageName", "couldn't parse {image}"))),
            (),
            "Running",
            "ImagePullFailed",
            ["couldn't parse {image}", "registry/name:tag"],
        ),
        (
            (pod(0), pod(1, state=waiting("CreateContainerConfigError", 'secret "hub" not found'))),
            (),
            "Running",
            "ContainerConfigError",
            ['secret "hub" not found', "spec.envFrom"],
        ),
        (
            (pod(0), pod(1, state=waiting("ContainerCreating"))),
            (_event("FailedMount", 'configmap "data" not found', uid="pod-1"),),
            "Running",
            "VolumeNotMounted",
            ['configmap "data" not found', "spec.volumes"],
        ),
        (
            (pod(0), pod(1, state=waiting("ContainerCreating"))),
            (_event("FailedCreatePodSandBox", f'sandbox "{"0f" * 32}": no address left', uid="pod-1"),),
            "Running",
            "SandboxFailed",
            ["the pod of worker 1", 'sandbox "...": no address left'],
        ),
        (
            (pod(0), pending_pod(1)),
            (),
            "Placed",
            "WaitingForNodes",
            ["Worker 1 cannot be placed", "3 Insufficient cpu", "spec.resources.cpu"],
        ),
        (
            (pod(0), pending_pod(1, message="0/2 nodes: 1 node(s) didn't match pod anti-affinity rules")),
            (),
            "Placed",
            "WaitingForNodes",
            ["OnePerNode needs a node for each worker"],
        ),
        (
            (pod(0), pending_pod(1, message="pod has unbound immediate PersistentVolumeClaims")),
            (),
            "Placed",
            "ClaimPending",
            ["spec.storage", "storage.storageClass"],
        ),
        (
            (),
            (_event("FailedCreate", "forbidden: exceeded quota: team, requested: cpu=16, used: cpu=0"),),
            "Placed",
            "QuotaExceeded",
            ["spec.resources", "2 of 2 workers", "exceeded quota: team", "ResourceQuota"],
        ),
        (
            (),
            (_event("FailedCreate", 'violates PodSecurity "restricted": runAsUser=0'),),
            "Placed",
            "PodRejected",
            ['violates PodSecurity "restricted"'],
        ),
    ],
    ids=[
        "image",
        "image-of-all",
        "image-name",
        "container-config",
        "mount",
        "sandbox",
        "no-node",
        "not-enough-nodes",
        "no-volume",
        "quota",
        "pod-security",
    ],
)
def test_what_keeps_workers_from_running_is_named(
    pods: tuple[Document, ...], events: tuple[Document, ...], condition: str, reason: str, words: list[str]
) -> None:
    """At the first look that can see it; one warning event; the same look again says nothing new."""
    life = Life()
    life.decide()
    life.seconds = 5
    decision = life.started(pods=pods, events=events)
    assert conditions(decision)[condition] == ("False", reason)
    assert all(word in message(decision, condition) for word in words)
    assert decision.status["phase"] == "Pending"
    assert reason in reasons(decision)
    again = life.started(pods=pods, events=events)
    assert (again.status, again.events) == (decision.status, ())


@pytest.mark.parametrize(
    ("pods", "events"),
    [
        ((pod(0), pod(1)), (_event("FailedCreate", "exceeded quota"),)),
        ((pod(0), pod(1)), (_event("FailedMount", "x", uid="pod-1"),)),
        ((pod(0), pod(1, state=waiting("ContainerCreating"))), (_event("FailedMount", "x", uid="old"),)),
    ],
    ids=["set-has-its-pods", "container-runs", "another-pods"],
)
def test_old_events_name_nothing(pods: tuple[Document, ...], events: tuple[Document, ...]) -> None:
    """An event lives an hour, its cause may not."""
    life = Life()
    life.decide()
    decision = life.started(pods=pods, events=events)
    found = {reason for _, reason in conditions(decision).values()}
    assert found.isdisjoint({"QuotaExceeded", "PodRejected", "VolumeNotMounted"})


def test_claim_that_is_just_being_provided_is_no_trouble() -> None:
    """Each start with a new claim passes through it: named after 5 s, looked for again by then."""
    life = Life()
    life.decide()
    unbound = (pod(0), pending_pod(1, message="pod has unbound immediate PersistentVolumeClaims"))
    life.seconds = 2
    decision = life.started(pods=unbound)
    assert conditions(decision)["Placed"] == ("Unknown", "Creating")
    assert reasons(decision) == []
    assert decision.requeue_seconds == 3


def test_silent_set_asks_for_warnings() -> None:
    """No pods although the set is there: only its events can say why."""
    life = Life()
    life.decide()
    life.seconds = 4
    decision = life.started(pods=())
    assert decision.ask_events
    assert decision.requeue_seconds is not None


IMAGE = (pod(0, state=waiting("ErrImagePull", "not found")), pod(1, state=waiting("ErrImagePull", "x")))


def test_image_that_never_comes_ends_the_job_at_the_deadline() -> None:
    """Named at once, ended when waiting has been long enough; the deadline is a requeue."""
    life = Life(spec={"runPolicy": {"preRunningDeadlineSeconds": 60}})
    life.decide()
    life.seconds = 5
    assert life.started(pods=IMAGE).requeue_seconds == pytest.approx(60, abs=5)
    life.seconds = 30
    assert life.started(pods=IMAGE).status["phase"] == "Pending"
    life.seconds = 70
    decision = life.started(pods=IMAGE)
    assert conditions(decision)["Failed"] == ("True", "ImagePullFailed")
    assert "cannot be pulled" in message(decision, "Failed")


@pytest.mark.parametrize(
    ("said", "phase"),
    [
        ('pods "mail-1" is forbidden: violates PodSecurity "restricted:latest": runAsUser=0', "Failed"),
        ("admission webhook policy.example denied the request: no team label", "Failed"),
        ('Internal error occurred: failed calling webhook "policy.example": connection refused', "Pending"),
        ('pods "mail-1" is forbidden: exceeded quota: team, requested: cpu=8, used: cpu=8', "Pending"),
    ],
    ids=["pod-security", "webhook-denies", "webhook-away", "quota"],
)
def test_rules_of_the_namespace_end_a_job_that_they_will_never_let_in(said: str, phase: str) -> None:
    """A webhook that is away comes back, and quota is given free by other jobs: these wait."""
    life = Life(spec={"runPolicy": {"preRunningDeadlineSeconds": 60}})
    life.decide()
    life.seconds = 70
    assert life.started(pods=(pod(0),), events=(_event("FailedCreate", said),)).status["phase"] == phase


def test_time_without_nodes_is_not_held_against_an_image() -> None:
    """An hour in the queue, then one failed pull: the registry gets its time."""
    life = Life(spec={"runPolicy": {"preRunningDeadlineSeconds": 60}})
    life.decide()
    life.started(pods=(pending_pod(0), pending_pod(1)))
    life.seconds = 3600
    life.started(
        pods=(pod(0, state=waiting("ContainerCreating")), pod(1, state=waiting("ContainerCreating")))
    )
    life.seconds = 3610
    assert life.started(pods=IMAGE).status["phase"] == "Pending"


def test_waiting_for_nodes_has_no_deadline() -> None:
    """Pending pods are what makes an autoscaler act."""
    life = Life(spec={"runPolicy": {"preRunningDeadlineSeconds": 60}})
    life.decide()
    life.seconds = 100_000
    assert life.started(pods=(pod(0), pending_pod(1))).status["phase"] == "Pending"


@pytest.mark.parametrize("reason", ["SMTAlignmentError", "TopologyAffinityError", "UnexpectedAdmissionError"])
def test_kubelets_refusals_stop_the_loop_and_are_tried_again(reason: str) -> None:
    """The set would make such a pod again at once: it is scaled to 0, tried again, and stopped again."""
    life = Life()
    life.decide()
    life.seconds = 2
    refused = (pod(0), _refused_pod(1, reason, "not enough"))
    decision = life.started(pods=refused)
    assert decision.actions == (Scale(name="mail", uid=SET_UID, replicas=0),)
    assert conditions(decision)["Placed"] == ("Unknown", "TopologyMisfit")
    assert "node node-1 refuses worker 1" in message(decision, "Placed")
    assert reason in message(decision, "Placed")
    assert decision.requeue_seconds == 30

    life.seconds = 20
    none = children(life.document, replicas=0)
    leaving = life.started(pods=(pod(0, deleted=stamp(100)),), **none)
    assert leaving.actions == ()
    assert message(leaving, "Placed") == message(decision, "Placed")
    life.seconds = 33
    again = life.started(pods=(), **none)
    assert again.actions == (Scale(name="mail", uid=SET_UID, replicas=2),)
    assert conditions(again)["Placed"] == ("False", "Creating")
    life.seconds = 35
    stopped = life.started(pods=refused)
    assert stopped.actions == (Scale(name="mail", uid=SET_UID, replicas=0),)
    assert stopped.status["restarts"] == {"failures": 0, "preemptions": 0, "display": "0"}


def test_pods_taken_away_after_a_refusal_are_no_preemptions() -> None:
    """And what was counted of those that still stand is not counted again."""
    life = Life()
    life.decide()
    restarted = pod(0, restarts=1, last_state=terminated(code=1))
    for _ in range(3):
        decision = life.started(pods=(restarted, _refused_pod(1, "SMTAlignmentError")))
        assert decision.status["restarts"]["display"] == "1"
    life.started(pods=(), **children(life.document, replicas=0))
    life.seconds = 31
    life.started(pods=(), **children(life.document, replicas=0))
    decision = life.started(pods=(pod(0, uid="new-0"), pod(1, uid="new-1")))
    assert decision.status["restarts"]["display"] == "1"


def test_refusals_end_the_job_at_the_deadline() -> None:
    """No node will ever take it: the job fails with the kubelet's reason."""
    life = Life(spec={"runPolicy": {"preRunningDeadlineSeconds": 60}})
    life.decide()
    life.seconds = 50
    life.started(pods=(_refused_pod(0, "SMTAlignmentError"), _refused_pod(1, "SMTAlignmentError")))
    life.seconds = 61
    decision = life.started(pods=(), **children(life.document, replicas=0))
    assert conditions(decision)["Failed"] == ("True", "TopologyMisfit")
    assert "even number of CPUs" in message(decision, "Failed")


def _restarts(decision: Decision) -> tuple[int, int]:
    return decision.status["restarts"]["failures"], decision.status["restarts"]["preemptions"]


def test_rounds_are_counted_once_by_their_id() -> None:
    """The list holds the last 32 for as long as worker 0 lives; the id counted last is remembered."""
    life = Life()
    life.train()
    first = life.started(launcher=report(state="Starting", failures=[failure(1)]))
    assert _restarts(first) == (1, 0)
    assert first.status["restarts"]["lastCounted"] == "pod-0/1"
    assert first.status["phase"] == "Restarting"
    assert reasons(first) == ["RoundRestarted"]
    assert "worker 1 on node node-1, rank 1, exit code 1: ValueError: x" in first.events[0].message
    same = life.started(launcher=report(failures=[failure(1)]))
    assert _restarts(same) == (1, 0)
    assert reasons(same) == ["TrainingResumed"]
    more = life.started(launcher=report(failures=[failure(1), failure(2), failure(4)]))
    assert _restarts(more) == (3, 0)


def test_another_coordinators_rounds_are_new() -> None:
    """Worker 0 was replaced: its launcher lists none but its own, whatever their numbers."""
    life = Life()
    life.train()
    life.started(launcher=report(failures=[failure(5)]))
    pods = (pod(0, uid="other"), pod(1))
    decision = life.started(
        pods=pods, launcher=report(pod_uid="other", failures=[failure(2, pod_uid="other")])
    )
    assert _restarts(decision) == (2, 1)


def test_report_of_an_earlier_pod_is_not_believed() -> None:
    """What the old worker 0 said last is of no use once there is another."""
    life = Life()
    life.train()
    decision = life.started(pods=(pod(0, uid="other"), pod(1)), launcher=report(failures=[failure(5)]))
    assert _restarts(decision) == (0, 1)


OOM = terminated(code=137, reason="OOMKilled")


def test_containers_that_end_whole_are_counted_by_the_operator() -> None:
    """Launcher and ranks died together: nobody else can count it; each end once."""
    life = Life()
    life.train()
    ended = life.started(pods=(pod(0), pod(1, state=OOM)))
    assert _restarts(ended) == (1, 0)
    assert "Worker 1" in ended.status["restarts"]["lastReason"]
    assert "spec.resources.memory is 16Gi" in ended.status["restarts"]["lastReason"]
    restarted = life.started(pods=(pod(0), pod(1, restarts=1, last_state=OOM)))
    assert _restarts(restarted) == (1, 0)
    backing_off = pod(1, restarts=1, state=waiting("CrashLoopBackOff"), last_state=OOM)
    assert _restarts(life.started(pods=(pod(0), backing_off))) == (2, 0)
    assert _restarts(life.started(pods=(pod(0), pod(1, restarts=2, last_state=OOM)))) == (2, 0)


def test_crash_loop_is_named() -> None:
    """Which worker, and how it ended."""
    life = Life()
    life.decide()
    failing = terminated("No module named xeontrain_trainer", code=1, reason="Error")
    looping = pod(1, restarts=1, state=waiting("CrashLoopBackOff"), last_state=failing)
    decision = life.started(pods=(pod(0), looping))
    assert conditions(decision)["Running"] == ("False", "CrashLoop")
    assert "exit code 1: No module named xeontrain_trainer" in message(decision, "Running")


@pytest.mark.parametrize(
    "lost",
    [
        pod(1, deleted=stamp(100), state=terminated(code=143, reason="Error")),
        pod(1, state=terminated(code=137), status={"phase": "Failed", "reason": "Evicted"}),
    ],
    ids=["deleted", "evicted"],
)
def test_replaced_pod_is_a_preemption_and_no_failure(lost: Document) -> None:
    """Its end is not counted, its successor is."""
    life = Life()
    life.train()
    assert _restarts(life.started(pods=(pod(0), lost))) == (0, 0)
    assert _restarts(life.started(pods=(pod(0), pending_pod(1, uid="next")))) == (0, 0)
    decision = life.started(pods=(pod(0), pod(1, uid="next")))
    assert _restarts(decision) == (0, 1)
    assert decision.status["restarts"]["display"] == "0 (+1)"
    assert reasons(decision) == ["WorkerReplaced"]


EVICTED = "Eviction API: evicting"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({}, "no failure of its own: its pod was deleted, or its node went.", id="by-hand"),
        pytest.param(
            {"reason": "EvictionByEvictionAPI", "message": EVICTED},
            f"no failure of its own (EvictionByEvictionAPI: {EVICTED}).",
            id="drained",
        ),
        pytest.param(
            {"reason": "PreemptionByScheduler"},
            "no failure of its own (PreemptionByScheduler).",
            id="preempted",
        ),
    ],
)
def test_why_a_pod_was_taken_away(status: Document, expected: str) -> None:
    """Seen on the pod as it goes, told once its successor runs, with the step that all go on from; once."""
    life = Life()
    life.train()
    conditions_of_pod = [{"type": "DisruptionTarget", "status": "True", **status}] if status else []
    lost = pod(1, deleted=stamp(100), status={"conditions": conditions_of_pod})
    life.started(pods=(pod(0), lost))
    progress = {"step": 40, "totalSteps": 100, "lastCheckpointStep": 30}
    decision = life.started(pods=(pod(0), pod(1, uid="next")), launcher=report(progress=progress))
    assert decision.status["restarts"]["lastReason"].endswith(expected)
    (event,) = [one for one in decision.events if one.reason == "WorkerReplaced"]
    assert event.message.endswith(f"{expected} All ranks go on from step 30, the last saved.")
    assert "disruption" not in decision.status["workerStatuses"][1]


def test_too_many_failures_end_the_job() -> None:
    """`backoffLimit` holds for both kinds of failure together."""
    life = Life(spec={"runPolicy": {"backoffLimit": 1}})
    life.train()
    first = life.started(launcher=report(failures=[failure(1)]))
    assert first.status["phase"] == "Running"
    decision = life.started(launcher=report(failures=[failure(1)]), pods=(pod(0), pod(1, state=OOM)))
    assert conditions(decision)["Failed"] == ("True", "BackoffLimitExceeded")
    assert message(decision, "Failed").startswith(
        "2 failures, and spec.runPolicy.backoffLimit is 1. The last"
    )
    assert decision.status_first


def test_active_deadline() -> None:
    """From the moment all workers ran; a requeue at the very time."""
    life = Life(spec={"runPolicy": {"activeDeadlineSeconds": 100}})
    life.train()
    life.seconds = 40
    assert life.started(launcher=report()).requeue_seconds == 60
    life.seconds = 100
    assert conditions(life.started(launcher=report()))["Failed"] == ("True", "DeadlineExceeded")


def test_verdict_wins_over_every_deadline() -> None:
    """The operator was down: what the job has done meanwhile counts."""
    life = Life(spec={"runPolicy": {"activeDeadlineSeconds": 100, "backoffLimit": 0}})
    life.train()
    life.seconds = 10_000
    decision = life.started(pods=(pod(0, state=terminated(result(failures=1))), pod(1)))
    assert decision.status["phase"] == "Succeeded"


def test_pod_on_a_lost_node_is_released() -> None:
    """Past its grace the node is asked about, and only on a lost one the pod is deleted by force."""
    life = Life()
    life.train()
    stuck = (pod(0), pod(1, deleted=stamp(100)))
    life.seconds = 50
    early = life.started(pods=stuck)
    assert (early.ask_nodes, early.actions, early.requeue_seconds) == ((), (), 60)
    life.seconds = 111
    due = life.started(pods=stuck)
    assert (due.ask_nodes, due.actions) == (("node-1",), ())
    lost = life.started(pods=stuck, lost_nodes=frozenset({"node-1"}))
    assert lost.actions == (DeletePod(name="mail-1", uid="pod-1", grace_seconds=0),)
