"""Jobs, pods and launchers' answers for the tests of the operator's pure core."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from xeontrain_operator.api.v1alpha1 import XeonTrainJob, parse_job
from xeontrain_operator.builders.children import build_children
from xeontrain_operator.builders.merge import deep_merge
from xeontrain_operator.constants import API_VERSION, KIND, LABEL_JOB_UID, LABEL_POD_INDEX
from xeontrain_operator.reconcile.observed import LauncherReport
from xeontrain_operator.settings import NodePool, Settings

Document = dict[str, Any]

UID = "0a1b2c3d-1111-2222-3333-444455556666"
SET_UID = "set-uid"
NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
SETTINGS = Settings(
    trainer_image="registry.example/trainer:1",
    node_pools={
        "xeon": NodePool(
            node_selector={"pool": "xeon"},
            tolerations=({"key": "xeon", "operator": "Exists", "effect": "NoSchedule"},),
            price_per_hour=4.0,
            cpus_per_node=64,
        )
    },
)

_TRAINING: Document = {
    "task": "text-classification",
    "model": "sentence-transformers/all-MiniLM-L6-v2",
    "dataset": {"files": {"train": ["/data/train.csv"]}},
}


def at(seconds: float) -> datetime:
    """The time so many seconds after NOW."""
    return NOW + timedelta(seconds=seconds)


def stamp(seconds: float = 0) -> str:
    """The same as text."""
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def job_document(
    *, spec: Mapping[str, Any] | None = None, status: Mapping[str, Any] | None = None, **metadata: Any
) -> Document:
    """A job of two workers; `spec` is merged over it. With `command` it has no `training`."""
    base: Document = {
        "workers": 2,
        "resources": {"cpu": 8, "memory": "16Gi"},
        "storage": {"size": "10Gi"},
    }
    if "command" not in (spec or {}):
        base["training"] = _TRAINING
    document: Document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "mail", "namespace": "team", "uid": UID, "generation": 1, **metadata},
        "spec": deep_merge(base, spec or {}),
    }
    if status is not None:
        document["status"] = dict(status)
    return copy.deepcopy(document)


def job(*, spec: Mapping[str, Any] | None = None, **metadata: Any) -> XeonTrainJob:
    """The same, read."""
    return parse_job(job_document(spec=spec, **metadata))


def pod(
    worker: int,
    *,
    uid: str | None = None,
    state: Mapping[str, Any] | None = None,
    last_state: Mapping[str, Any] | None = None,
    restarts: int = 0,
    node: str | None = "",
    deleted: str | None = None,
    owner: str | None = SET_UID,
    status: Mapping[str, Any] | None = None,
    created: str | None = None,
) -> Document:
    """A worker's pod whose trainer container is in `state` (running unless told otherwise)."""
    container: Document = {"name": "trainer", "restartCount": restarts, "state": state or {"running": {}}}
    if last_state is not None:
        container["lastState"] = last_state
    metadata: Document = {
        "name": f"mail-{worker}",
        "namespace": "team",
        "uid": uid or f"pod-{worker}",
        "creationTimestamp": created or stamp(),
        "labels": {LABEL_POD_INDEX: str(worker), LABEL_JOB_UID: UID},
    }
    if owner is not None:
        metadata["ownerReferences"] = [{"kind": "StatefulSet", "uid": owner, "controller": True}]
    if deleted is not None:
        metadata["deletionTimestamp"] = deleted
    spec: Document = {"containers": [{"name": "trainer", "image": "registry.example/trainer:1"}]}
    if node is not None:
        spec["nodeName"] = node or f"node-{worker}"
    base = {"phase": "Running", "qosClass": "Guaranteed", "containerStatuses": [container]}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {**base, **(status or {})}}


def pending_pod(worker: int, **more: Any) -> Document:
    """A pod that no node has been found for."""
    unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    scheduled = {**unplaced, "message": more.pop("message", "0/3 nodes are available: 3 Insufficient cpu.")}
    made = pod(worker, node=None, status={"phase": "Pending", "conditions": [scheduled]}, **more)
    del made["status"]["containerStatuses"]
    return made


def waiting(reason: str, message: str = "") -> Document:
    """A container's waiting state."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def terminated(message: str = "", *, code: int = 0, reason: str = "Completed") -> Document:
    """A container's terminated state."""
    return {"terminated": {"exitCode": code, "reason": reason, "message": message, "finishedAt": stamp()}}


def result(**changes: Any) -> str:
    """A result document as a termination message."""
    document = {
        "contract": 1,
        "jobUid": UID,
        "worker": 0,
        "round": 1,
        "outcome": "Succeeded",
        "metrics": {"accuracy": 0.97},
        "model": f"/var/lib/xeontrain/mail-{UID[:8]}/model",
        "failures": 0,
        "failure": None,
    }
    return json.dumps({**document, **changes})


def failed_result(reason: str, message: str, **changes: Any) -> str:
    """A result document of a job that failed."""
    failure = {"worker": 1, "rank": 1, "exitCode": 78, "reason": reason, "message": message}
    return result(outcome="Failed", metrics={}, model=None, failures=1, failure={**failure, **changes})


def cpu(**changes: Any) -> Document:
    """`cpu` of a launcher's answer."""
    known = {
        "model": "Intel Xeon Platinum 8488C",
        "instructionSet": "AMX_BF16",
        "cpus": "0-7",
        "ranks": 1,
        "coresPerRank": 7,
        "commCoresPerRank": 1,
        "exclusive": "True",
    }
    return {**known, **changes}


def report(
    *, state: str = "Running", pod_uid: str = "pod-0", workers: int = 2, **more: Any
) -> LauncherReport:
    """An answer of worker 0's launcher."""
    members = [
        {"worker": worker, "podUid": f"pod-{worker}", "state": state, "round": 1, "cpu": cpu()}
        for worker in range(workers)
    ]
    status = {
        "contract": 1,
        "jobUid": UID,
        "worker": 0,
        "podUid": pod_uid,
        "state": state,
        "round": 1,
        "members": members,
        "missing": [],
        "cpu": cpu(),
        "failures": [],
        "failuresCounted": 0,
    }
    return LauncherReport(status={**status, **more}, asked_at=NOW)


def failure(round_number: int, *, pod_uid: str = "pod-0", **more: Any) -> Document:
    """An item of `failures` of a launcher's answer."""
    known = {"worker": 1, "rank": 1, "exitCode": 1, "reason": "RankFailed", "message": "ValueError: x"}
    return {"id": f"{pod_uid}/{round_number}", "round": round_number, **known, **more}


def children(document: Document, *, replicas: int = 2) -> dict[str, Any]:
    """The children of a job as the API server would show them, by the names of `Observed`'s fields."""
    fields = {
        "Service": "service",
        "ConfigMap": "config_map",
        "NetworkPolicy": "network_policy",
        "StatefulSet": "stateful_set",
    }
    made = {}
    for body in build_children(parse_job(document), settings=SETTINGS):
        kind = body["kind"]
        body["metadata"]["uid"] = SET_UID if kind == "StatefulSet" else f"{kind.lower()}-uid"
        body["metadata"]["creationTimestamp"] = stamp()
        made[fields[kind]] = body
    made["stateful_set"]["spec"]["replicas"] = replicas
    return made
