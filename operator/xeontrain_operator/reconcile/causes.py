"""What keeps workers from running: each cause with the field that it comes from and the remedy.

A Pending pod says its reason in five different places (the set's events, the scheduler's condition, the
container's waiting state, the pod's own phase, mount events). This is the one module that reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from xeontrain_operator.api import conditions as c
from xeontrain_operator.reconcile.observed import Document, is_terminating
from xeontrain_operator.reconcile.pods import (
    by_worker,
    condition,
    ends,
    image_of,
    launcher_status,
    node_of,
    pod_uid,
    trainer_status,
)
from xeontrain_operator.reconcile.text import quote, sentence

# What is said first where several causes meet.
_GRAVITY: tuple[str, ...] = (
    c.QUOTA_EXCEEDED,
    c.POD_REJECTED,
    c.TOPOLOGY_MISFIT,
    c.IMAGE_PULL_FAILED,
    c.CONTAINER_CONFIG_ERROR,
    c.VOLUME_NOT_MOUNTED,
    c.SANDBOX_FAILED,
    c.CRASH_LOOP,
    c.CLAIM_PENDING,
    c.SCHEDULING_GATED,
    c.WAITING_FOR_NODES,
)
_OF_PLACED = frozenset(
    {
        c.QUOTA_EXCEEDED,
        c.POD_REJECTED,
        c.TOPOLOGY_MISFIT,
        c.CLAIM_PENDING,
        c.SCHEDULING_GATED,
        c.WAITING_FOR_NODES,
    }
)


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One thing that stands in the way of some workers."""

    reason: str
    """A reason of `api.conditions`."""
    message: str
    """Field, cause and remedy, in that order."""
    workers: tuple[int, ...] = ()

    @property
    def condition(self) -> str:
        """Type of the condition that tells it: a worker without a node, or one that has it but stands."""
        return c.PLACED if self.reason in _OF_PLACED else c.RUNNING


@dataclass(frozen=True, kw_only=True)
class _Finding:
    reason: str
    message: str


_IMAGE_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_CONTAINER_REASONS = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError"}
)
_ADMISSION_REASONS = frozenset(
    {"UnexpectedAdmissionError", "TopologyAffinityError", "SMTAlignmentError", "OutOfcpu", "OutOfmemory"}
)
_MOUNT_EVENTS = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})
_SANDBOX_EVENTS = frozenset({"FailedCreatePodSandBox"})
# Each attempt has an identifier of its own, which would make each a change of the status.
_IDENTIFIER = re.compile(r"\b[0-9a-f]{64}\b")

_IMAGE_REMEDIES = {
    "InvalidImageName": "Write it as registry/name:tag.",
    "ErrImageNeverPull": "Load it on the nodes, or leave out spec.imagePullPolicy: Never.",
}
_IMAGE_REMEDY = "Check name and tag, and name the registry's Secret in spec.imagePullSecrets if it needs one."

_ADMISSION_REMEDIES = {
    "SMTAlignmentError": (
        "spec.resources.cpu",
        "The node gives out whole cores only: ask for an even number of CPUs.",
    ),
    "TopologyAffinityError": (
        "spec.resources.cpu",
        "No NUMA node of it has as many free CPUs: ask for fewer, or use more workers of less.",
    ),
    "UnexpectedAdmissionError": ("spec.resources.cpu", "Ask for fewer CPUs, or free exclusive CPUs on it."),
    "OutOfcpu": ("spec.resources.cpu", "Ask for fewer CPUs, or wait until others end there."),
    "OutOfmemory": ("spec.resources.memory", "Ask for less memory, or wait until others end there."),
}

# In the scheduler's words -> where to look. Its message joins one part per group of nodes.
_SCHEDULER_HINTS: tuple[tuple[str, str], ...] = (
    (r"Insufficient cpu", "no node has as many free CPUs as spec.resources.cpu asks for"),
    (r"Insufficient memory", "no node has as much free memory as spec.resources.memory asks for"),
    (r"pod anti-affinity", "spec.placement.spread: OnePerNode needs a node for each worker"),
    (r"node affinity/selector", "check spec.nodePool and spec.placement against the nodes' labels"),
    (r"untolerated taint", "tolerate the taint in spec.placement.tolerations or choose a spec.nodePool"),
    (r"volume node affinity", "the claim's volume is on a node that cannot take the worker"),
)


def find_causes(
    *, pods: Iterable[Document], stateful_set: Document | None, events: Iterable[Document], workers: int
) -> list[Cause]:
    """What keeps workers from running, the gravest first; empty where nothing is known to.

    `events` may be old: those of the set count only while pods are missing, those of a pod only for this
    very pod and while its container does not run.
    """
    events = list(events)
    numbered = {worker: pod for worker, pod in by_worker(pods).items() if worker < workers}
    missing = [worker for worker in range(workers) if worker not in numbered]
    found: dict[_Finding, list[int]] = {}
    refusal = _pods_refused(stateful_set, events) if missing else None
    if refusal is not None:
        found[refusal] = missing
    for worker, pod in numbered.items():
        finding = _finding(pod, events)
        if finding is not None:
            found.setdefault(finding, []).append(worker)
    causes = [_cause(finding, tuple(affected), workers) for finding, affected in found.items()]
    return sorted(causes, key=lambda cause: (_GRAVITY.index(cause.reason), cause.workers))


def admission_refusal(pod: Document) -> str | None:
    """The kubelet's reason for having refused this pod for good (the set then makes it again at once)."""
    status = pod.get("status") or {}
    reason = status.get("reason")
    return str(reason) if status.get("phase") == "Failed" and reason in _ADMISSION_REASONS else None


def _cause(finding: _Finding, affected: tuple[int, ...], workers: int) -> Cause:
    who = f"worker {affected[0]}" if len(affected) == 1 else f"{len(affected)} of {workers} workers"
    message = finding.message.format(who=who)
    if message.startswith("worker"):
        message = f"W{message[1:]}"
    return Cause(reason=finding.reason, message=message, workers=affected)


def _finding(pod: Document, events: list[Document]) -> _Finding | None:
    if is_terminating(pod):
        return None
    checks: tuple[Callable[[], _Finding | None], ...] = (
        lambda: _admission(pod),
        lambda: _copying(pod),
        lambda: _waiting(pod),
        lambda: _unschedulable(pod),
        lambda: _mounts(pod, events),
        lambda: _sandbox(pod, events),
    )
    return next((finding for check in checks if (finding := check()) is not None), None)


def _admission(pod: Document) -> _Finding | None:
    reason = admission_refusal(pod)
    if reason is None:
        return None
    where, remedy = _ADMISSION_REMEDIES[reason]
    message = f"{where}: node {node_of(pod)} refuses {{who}}: {_quote(_said(pod, reason))} {remedy}"
    return _Finding(reason=c.TOPOLOGY_MISFIT, message=message)


def _said(pod: Document, reason: str) -> str:
    return f"{reason}: {(pod.get('status') or {}).get('message') or 'no message'}"


def _copying(pod: Document) -> _Finding | None:
    """The initial container that brings the launcher into an image of the user's own."""
    status = launcher_status(pod)
    waiting: Mapping[str, Any] = (status.get("state") or {}).get("waiting") or {}
    reason, said = waiting.get("reason"), _quote(waiting.get("message") or waiting.get("reason"))
    image = _braces(str(status.get("image")))
    if reason in _IMAGE_REASONS:
        message = (
            f"the operator's image: {image} cannot be pulled for {{who}}, and a command in an image of its "
            f"own gets the launcher from there: {said} Make it readable in this namespace, by a Secret of "
            "the chart's images.trainer.pullSecrets or of spec.imagePullSecrets."
        )
        return _Finding(reason=c.IMAGE_PULL_FAILED, message=message)
    if reason == "CrashLoopBackOff":
        said = _quote(_last_end(status))
    if reason == "CrashLoopBackOff" or reason in _CONTAINER_REASONS:
        message = (
            f"the operator's image: {image} cannot copy the launcher for {{who}}: {said} Correct the "
            "chart's images.operator, or leave out spec.image to run in the trainer image."
        )
        return _Finding(reason=c.CRASH_LOOP, message=message)
    return None


def _waiting(pod: Document) -> _Finding | None:
    status = trainer_status(pod)
    waiting: Mapping[str, Any] = (status.get("state") or {}).get("waiting") or {}
    reason, said = waiting.get("reason"), _quote(waiting.get("message") or waiting.get("reason"))
    if reason in _IMAGE_REASONS:
        remedy = _IMAGE_REMEDIES.get(str(reason), _IMAGE_REMEDY)
        message = f"spec.image: {_braces(image_of(pod))} cannot be pulled for {{who}}: {said} {remedy}"
        return _Finding(reason=c.IMAGE_PULL_FAILED, message=message)
    if reason in _CONTAINER_REASONS:
        message = (
            f"spec: the container of {{who}} cannot be made: {said} Make the object that it names, "
            "or correct spec.env, spec.envFrom, spec.command or spec.podTemplate."
        )
        return _Finding(reason=c.CONTAINER_CONFIG_ERROR, message=message)
    if reason == "CrashLoopBackOff":
        message = f"The container of {{who}} ends again and again: {_quote(last_end(pod))}"
        return _Finding(reason=c.CRASH_LOOP, message=message)
    return None


def last_end(pod: Document) -> str:
    """How the trainer container has ended last, in a few words."""
    return _last_end(trainer_status(pod))


def _last_end(status: Mapping[str, Any]) -> str:
    ended: Mapping[str, Any] = next(iter(ends(status)), {})
    code, reason = ended.get("exitCode"), ended.get("reason") or "Error"
    said = quote(ended.get("message") or "")
    words = (
        "killed for using more than its memory" if reason == "OOMKilled" else f"{reason}, exit code {code}"
    )
    return f"{words}: {said}" if said else words


def _unschedulable(pod: Document) -> _Finding | None:
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") != "False":
        return None
    said = str(scheduled.get("message") or "no message")
    if scheduled.get("reason") == "SchedulingGated":
        message = f"spec.podTemplate: a scheduling gate holds back {{who}}: {_quote(said)}"
        return _Finding(reason=c.SCHEDULING_GATED, message=message)
    if "persistentvolumeclaim" in said.lower():
        message = (
            f"spec.storage: no volume for {{who}}: {_quote(said)} Make the claim that storage.claim "
            "names, or choose a storage.storageClass that can provide storage.size."
        )
        return _Finding(reason=c.CLAIM_PENDING, message=message)
    hints = [hint for pattern, hint in _SCHEDULER_HINTS if re.search(pattern, said)]
    remedy = "; ".join(hints)
    sentence = f" {remedy[0].upper()}{remedy[1:]}." if remedy else ""
    message = f"{{who}} cannot be placed; the scheduler says: {_quote(said)}{sentence}"
    return _Finding(reason=c.WAITING_FOR_NODES, message=message)


def _mounts(pod: Document, events: list[Document]) -> _Finding | None:
    event = _newest(events, uid=pod_uid(pod), reasons=_MOUNT_EVENTS)
    if event is None or _has_started(pod):
        return None
    message = (
        f"spec.volumes: the volumes of {{who}} cannot be mounted: {_quote(event.get('message'))} "
        "Make the object that is named, or correct spec.volumes or spec.storage."
    )
    return _Finding(reason=c.VOLUME_NOT_MOUNTED, message=message)


def _sandbox(pod: Document, events: list[Document]) -> _Finding | None:
    event = _newest(events, uid=pod_uid(pod), reasons=_SANDBOX_EVENTS)
    if event is None or _has_started(pod):
        return None
    said = _quote(_IDENTIFIER.sub("...", str(event.get("message"))))
    message = (
        f"node {node_of(pod)}: the pod of {{who}} cannot be started: {said} The node tries again by itself; "
        "if it goes on, ask who runs the node about its network and container runtime."
    )
    return _Finding(reason=c.SANDBOX_FAILED, message=message)


def _has_started(pod: Document) -> bool:
    state = trainer_status(pod).get("state") or {}
    return "running" in state or "terminated" in state


def _pods_refused(stateful_set: Document | None, events: list[Document]) -> _Finding | None:
    if stateful_set is None:
        return None
    uid = str(stateful_set["metadata"]["uid"])
    event = _newest(events, uid=uid, reasons=frozenset({"FailedCreate"}))
    if event is None:
        return None
    said = str(event.get("message") or "")
    quota = "exceeded quota" in said
    remedy = (
        "Ask for less in spec.resources or spec.workers, or have the namespace's ResourceQuota raised."
        if quota
        else "Correct the field that is named, or ask who sets the rules of this namespace."
    )
    where = "spec.resources" if quota else "spec"
    message = f"{where}: the cluster refuses the pod of {{who}}: {_quote(said)} {remedy}"
    return _Finding(reason=c.QUOTA_EXCEEDED if quota else c.POD_REJECTED, message=message)


def _newest(events: list[Document], *, uid: str, reasons: frozenset[str]) -> Document | None:
    about = [e for e in events if (e.get("involvedObject") or {}).get("uid") == uid]
    return max((e for e in about if e.get("reason") in reasons), key=_event_time, default=None)


def _event_time(event: Document) -> str:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((str(time) for time in times if time), "")


def _quote(said: object) -> str:
    """Another program's message as a sentence, safe for `format`."""
    return _braces(sentence(quote(said)))


def _braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
