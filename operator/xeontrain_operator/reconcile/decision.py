"""What one reconcile is to do: a value that `decide` returns and `loop` carries out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Propagation = Literal["Background", "Foreground", "Orphan"]


@dataclass(frozen=True, kw_only=True)
class Create:
    """Make a child that is absent (POST with our field manager).

    Never an overwrite: on 409 AlreadyExists the loop reads the object anew and reconciles again, and
    `decide` then sees whether it is ours. A refusal (other 4xx) comes back as `Observed.apply_errors`.
    """

    body: dict[str, Any]

    @property
    def kind(self) -> str:
        """The kind of the object to make."""
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        """The name of the object to make."""
        return str(self.body["metadata"]["name"])


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Set `spec.replicas` of the StatefulSet, and nothing else of it."""

    name: str
    uid: str
    """Precondition: an object of another UID is left alone."""
    replicas: int


@dataclass(frozen=True, kw_only=True)
class PatchTemplate:
    """Replace parts of the StatefulSet's pod template (strategic merge): only at a job's end, for
    `cleanPodPolicy: None`, so that a replaced pod parks instead of training anew."""

    name: str
    uid: str
    template: dict[str, Any]
    annotations: dict[str, str] = field(default_factory=dict)
    """Put on the set itself in the same request: how the next reconcile knows that it is done."""


@dataclass(frozen=True, kw_only=True)
class Delete:
    """Delete a child, with its UID as precondition; absent is as good as deleted.

    A direct GET precedes it (the cache may be behind). `propagation` is the API's propagationPolicy.
    """

    kind: str
    name: str
    uid: str
    propagation: Propagation = "Background"


@dataclass(frozen=True, kw_only=True)
class DeletePod:
    """Delete one pod, with its UID as precondition. `grace_seconds` 0 is a forced deletion (its node is
    gone); None leaves the pod's own grace period."""

    name: str
    uid: str
    grace_seconds: int | None = None


@dataclass(frozen=True, kw_only=True)
class KeepLog:
    """Keep the tail (64 KiB a worker) of these workers' logs in the ConfigMap `name`, owned by the job.

    From the launcher's `/log`, or `pods/log` where that does not answer; at most 5 s in all. Whatever
    fails is skipped: the actions after it are carried out in any case.
    """

    name: str
    workers: tuple[int, ...]


Action = Create | Scale | PatchTemplate | Delete | DeletePod | KeepLog


@dataclass(frozen=True, kw_only=True)
class JobEvent:
    """A Kubernetes Event about the job, sent after the status write that it tells of has succeeded."""

    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The outcome of `decide`.

    Order of effects: where `status_first`, the status is written first and NOTHING of `actions` is done
    if that fails (a job's end must be on record before its children go); otherwise `actions` in their
    order, then the status. Then `events`. An action that fails for a passing reason stops those after it;
    the key is retried with back-off.
    """

    actions: tuple[Action, ...] = ()
    status: dict[str, Any] = field(default_factory=dict)
    """The whole new status. Equal to the old one (`==`) where nothing changed that a person would see:
    then nothing is written and no event is sent."""
    status_first: bool = False
    events: tuple[JobEvent, ...] = ()
    requeue_seconds: float | None = None
    """Reconcile again after this many seconds even if nothing happens; None: events alone wake it."""
    ask_launcher: bool = False
    """Worker 0's `/status` is worth asking now and at each poll interval while this stays true."""
    ask_workers: tuple[int, ...] = ()
    """Workers whose own `/status` is worth asking as well, because the gang does not come together."""
    ask_events: bool = False
    """Pods are kept from running: read the Warning events of set, pods and claims for the next decision."""
    ask_rivals: bool = False
    """The job holds some of its nodes and waits for more: look at others that do, for the next decision."""
    ask_nodes: tuple[str, ...] = ()
    """Nodes of pods that are past their deletion grace: say at the next decision which are lost."""
    finished: bool = False
    """The job has ended and its children are cleaned: it may be kept as key and TTL only."""
