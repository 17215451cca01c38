"""What goes when a job has ended, by `cleanPodPolicy`; and the job itself, by its time to live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from xeontrain_operator.builders.names import claim_name, log_config_map_name
from xeontrain_operator.constants import CONTAINER_NAME, ENV_PARK_ONLY, GROUP, KIND
from xeontrain_operator.reconcile.decision import Action, Delete, DeletePod, KeepLog, PatchTemplate
from xeontrain_operator.reconcile.observed import Document, is_terminating, owned_by
from xeontrain_operator.reconcile.pods import pod_uid
from xeontrain_operator.reconcile.situation import Situation
from xeontrain_operator.reconcile.verdict import find_verdict

ANNOTATION_PARK_ONLY: Final = f"{GROUP}/park-only"
PARKED_GRACE_SECONDS: Final = 5


@dataclass(frozen=True, kw_only=True)
class Cleanup:
    """What is to be done for a finished job."""

    actions: tuple[Action, ...]
    message: str
    """What of the job is left, for people."""
    done: bool
    """Nothing is left to do but to wait for the time to live."""
    requeue_seconds: float | None = None


def clean_up(situation: Situation) -> Cleanup:
    """Level-triggered: the same answer until what is to go has gone."""
    policy = situation.spec.run_policy.clean_pod_policy
    actions = _park(situation) if policy == "None" else _remove_pods(situation)
    if policy == "All" and not actions and not situation.observed.pods and situation.stateful_set is None:
        actions = _remove_rest(situation)
    gone = policy == "None" or (situation.stateful_set is None and not situation.observed.pods)
    done = gone and not actions
    expiry = _expiry_seconds(situation)
    if done and expiry is not None and expiry <= 0:
        metadata = situation.job.metadata
        actions = [Delete(kind=KIND, name=metadata.name, uid=situation.observed.uid)]
    return Cleanup(
        actions=tuple(actions),
        message=_message(situation),
        done=done and not actions,
        requeue_seconds=expiry if expiry is not None and expiry > 0 else None,
    )


def _expiry_seconds(situation: Situation) -> float | None:
    ttl, ended = situation.spec.run_policy.ttl_seconds_after_finished, situation.status.completion_time
    return None if ttl is None or ended is None else ttl - situation.since_seconds(ended)


def _remove_pods(situation: Situation) -> list[Action]:
    found = situation.stateful_set
    if found is not None:
        if is_terminating(found):
            return []
        return [*_keep_log(situation), *_hasten_worker_zero(situation), _delete(found)]
    # The set's pods go by garbage collection; these were orphaned by hand.
    orphans = [pod for pod in situation.observed.pods if not is_terminating(pod) and not _has_owner(pod)]
    return [DeletePod(name=pod["metadata"]["name"], uid=pod_uid(pod)) for pod in orphans]


def _hasten_worker_zero(situation: Situation) -> list[Action]:
    """Its container has just ended with the verdict and is being started again. Process 1 of a container
    does not get a SIGTERM that comes before its handler is set, and the pod would then stay for the whole
    grace period, which was meant for checkpoints; there is nothing to save any more. Before the set goes:
    a kubelet that has begun to stop a container is deaf to a shorter grace."""
    pod = situation.pods.get(0)
    if pod is None or is_terminating(pod):
        return []
    return [DeletePod(name=pod["metadata"]["name"], uid=pod_uid(pod), grace_seconds=PARKED_GRACE_SECONDS)]


def _has_owner(pod: Document) -> bool:
    return bool(pod["metadata"].get("ownerReferences"))


def _keep_log(situation: Situation) -> list[Action]:
    """Of worker 0 and of those that failed, while their pods are still there to be asked."""
    there = [worker for worker, pod in situation.pods.items() if not is_terminating(pod)]
    known = situation.status.worker_statuses
    failed = {entry.worker for entry in known if entry.restarts > 0 or entry.removed_pod_uid}
    verdict = find_verdict(
        worker_zero=situation.pods.get(0), report=situation.observed.launcher, uid=situation.observed.uid
    )
    blamed = verdict.failure.get("worker") if verdict is not None else None
    order = [worker for worker in (0, blamed, *sorted(failed)) if worker in there]
    workers = tuple(dict.fromkeys(order))[:2]
    name = log_config_map_name(situation.job.metadata)
    return [KeepLog(name=name, workers=workers)] if workers else []


def _remove_rest(situation: Situation) -> list[Action]:
    """The Service last: workers find each other by it until the end."""
    seen = situation.observed
    children = (seen.network_policy, seen.config_map, seen.service)
    return [
        _delete(child)
        for child in children
        if child is not None and owned_by(child, uid=seen.uid) and not is_terminating(child)
    ]


def _delete(child: Document) -> Delete:
    metadata = child["metadata"]
    return Delete(kind=child["kind"], name=metadata["name"], uid=metadata["uid"])


def _park(situation: Situation) -> list[Action]:
    """Pods stay as they are; one that is replaced from now on must not begin the run again."""
    found = situation.stateful_set
    if found is None or (found["metadata"].get("annotations") or {}).get(ANNOTATION_PARK_ONLY):
        return []
    metadata = found["metadata"]
    template: dict[str, Any] = {
        "spec": {"containers": [{"name": CONTAINER_NAME, "env": [{"name": ENV_PARK_ONLY, "value": "1"}]}]}
    }
    return [
        PatchTemplate(
            name=metadata["name"],
            uid=metadata["uid"],
            template=template,
            annotations={ANNOTATION_PARK_ONLY: "true"},
        )
    ]


def _message(situation: Situation) -> str:
    left = {
        "Running": "the StatefulSet and its pods are deleted",
        "All": "its StatefulSet, pods, Service, NetworkPolicy and ConfigMap are deleted",
        "None": "its pods are kept (cleanPodPolicy: None) and hold their CPUs until they are deleted",
    }
    kept = _kept_claims(situation)
    return f"The job has ended; {left[situation.spec.run_policy.clean_pod_policy]}{kept}."


def _kept_claims(situation: Situation) -> str:
    storage = situation.spec.storage
    if storage is None or storage.retain == "Delete":
        return ""
    if storage.claim is not None:
        return f"; the claim {storage.claim} is kept"
    first, last = (
        claim_name(situation.job.metadata, worker=worker) for worker in (0, situation.spec.workers - 1)
    )
    return f"; the claim {first} is kept" if first == last else f"; the claims {first} to {last} are kept"
