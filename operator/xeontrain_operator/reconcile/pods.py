"""Reading worker pods: which worker, running or not, and how its container has ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from xeontrain_operator.constants import CONTAINER_NAME, LABEL_POD_INDEX, LAUNCHER_CONTAINER
from xeontrain_operator.reconcile.observed import Document, is_terminating


def worker_of(pod: Document) -> int | None:
    """The worker's number: the pod-index label, or the end of the name on a cluster without it."""
    metadata = pod["metadata"]
    text = (metadata.get("labels") or {}).get(LABEL_POD_INDEX) or metadata["name"].rpartition("-")[2]
    return int(text) if text.isdecimal() else None


def by_worker(pods: Iterable[Document]) -> dict[int, Document]:
    """Pods by worker number (a StatefulSet has at most one of each), others left out."""
    numbered = {worker_of(pod): pod for pod in pods}
    return {worker: pod for worker, pod in sorted((w, p) for w, p in numbered.items() if w is not None)}


def pod_uid(pod: Document) -> str:
    """The pod's UID."""
    return str(pod["metadata"]["uid"])


def node_of(pod: Document) -> str | None:
    """The node that the pod is bound to."""
    node: str | None = (pod.get("spec") or {}).get("nodeName")
    return node


def holds_node(pod: Document) -> bool:
    """Whether the pod has CPUs of a node: bound, and not at an end that gives them back."""
    return node_of(pod) is not None and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def trainer_status(pod: Document) -> Mapping[str, Any]:
    """`status.containerStatuses` of the trainer container; empty where there is none yet."""
    return _status(pod, "containerStatuses", name=CONTAINER_NAME)


def launcher_status(pod: Document) -> Mapping[str, Any]:
    """`status.initContainerStatuses` of what copies the launcher; empty where nothing does."""
    return _status(pod, "initContainerStatuses", name=LAUNCHER_CONTAINER)


def _status(pod: Document, key: str, *, name: str) -> Mapping[str, Any]:
    for status in (pod.get("status") or {}).get(key) or ():
        if status.get("name") == name:
            found: Mapping[str, Any] = status
            return found
    return {}


def image_of(pod: Document) -> str:
    """The trainer container's image."""
    containers = (pod.get("spec") or {}).get("containers") or ()
    images = (str(item.get("image")) for item in containers if item.get("name") == CONTAINER_NAME)
    return next(images, "the image")


def restart_count(pod: Document) -> int:
    """How often the trainer container was started again in this pod."""
    return int(trainer_status(pod).get("restartCount") or 0)


def is_running(pod: Document) -> bool:
    """Whether the trainer container runs and the pod is not about to go."""
    return "running" in (trainer_status(pod).get("state") or {}) and not is_terminating(pod)


def terminations(pod: Document) -> list[Mapping[str, Any]]:
    """`terminated` of the trainer container's present and last state, the newer first."""
    return ends(trainer_status(pod))


def ends(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The same of any container's status."""
    states = [(status.get(key) or {}).get("terminated") for key in ("state", "lastState")]
    return [terminated for terminated in states if terminated]


def disruption(pod: Document) -> str | None:
    """Why Kubernetes takes the pod away (eviction, a more important pod, a taint, a node that shuts down).

    None where it does not, or where somebody has deleted the pod by hand. Source: condition DisruptionTarget,
    https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
    """
    found = condition(pod, "DisruptionTarget")
    if found.get("status") != "True":
        return None
    return ": ".join(str(found[key]) for key in ("reason", "message") if found.get(key))


def condition(pod: Document, condition_type: str) -> Mapping[str, Any]:
    """One of the pod's conditions; empty where it has none of this type."""
    for found in (pod.get("status") or {}).get("conditions") or ():
        if found.get("type") == condition_type:
            result: Mapping[str, Any] = found
            return result
    return {}
