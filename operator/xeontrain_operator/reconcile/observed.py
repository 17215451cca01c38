"""What one reconcile has seen: the job and its children, read before anything is decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

Document = Mapping[str, Any]
"""A Kubernetes object (or a part of one) as the API gives it. Read, never changed."""


@dataclass(frozen=True, kw_only=True)
class LauncherReport:
    """An answer of worker 0's `GET /status` (docs/contract.md), already validated by whoever asked."""

    status: Document
    asked_at: datetime
    """When it was asked, in UTC: an older answer never replaces what a newer one has said."""


@dataclass(frozen=True, kw_only=True)
class WorkerAnswer:
    """What the launcher in a worker's pod says of itself, or why it could not be asked."""

    worker: int
    pod_uid: str
    asked_at: datetime
    status: Document | None = None
    """An answer of `GET /status`, already validated."""
    error: str | None = None
    """Why there is none."""


@dataclass(frozen=True, kw_only=True)
class Rival:
    """Another job that lives, with its pods."""

    job: Document
    pods: tuple[Document, ...]


@dataclass(frozen=True, kw_only=True)
class ApplyError:
    """The API server's refusal of a child (4xx), kept by the loop until the job or the child changes.

    A fault that passes (429, 5xx, no connection) is none: the loop retries those by itself.
    """

    kind: str
    name: str
    status_code: int
    reason: str
    """The `reason` of the API's Status object: `Invalid`, `Forbidden`, ..."""
    message: str
    verb: Literal["create", "change", "delete"] = "create"
    """What was refused."""


@dataclass(frozen=True, kw_only=True)
class Observed:
    """A job and all that stands under its name.

    `service`, `config_map`, `network_policy` and `stateful_set` are looked up by the child's NAME, so
    that an object of somebody else under that name is seen (`owned_by` tells them apart). `pods` and
    `claims` are those that carry the job's UID label, terminating ones included.
    """

    job: Document
    service: Document | None = None
    config_map: Document | None = None
    network_policy: Document | None = None
    stateful_set: Document | None = None
    pods: tuple[Document, ...] = ()
    claims: tuple[Document, ...] = ()
    """The claims of the set's templates, and the one that `storage.claim` names (for its access modes)."""
    events: tuple[Document, ...] = ()
    """core/v1 Events of type Warning about the set, its pods and its claims. Read only where the last
    decision had `ask_events`; empty otherwise."""
    lost_nodes: frozenset[str] = frozenset()
    """Of the nodes named by the last decision's `ask_nodes`: those that are NotReady or gone."""
    launcher: LauncherReport | None = None
    """The newest answer of worker 0's launcher, if there ever was one for its present pod."""
    launcher_error: str | None = None
    """Why the newest question to worker 0 got no valid answer; None if it did or none was put."""
    answers: Mapping[int, WorkerAnswer] = field(default_factory=dict)
    """By worker, of the present pods of those that the last decision's `ask_workers` named."""
    rivals: tuple[Rival, ...] | None = None
    """Other jobs that have some of their nodes and wait for more. Read only where the last decision had
    `ask_rivals`; None otherwise."""
    apply_errors: tuple[ApplyError, ...] = ()
    """Refusals of children at the spec's present generation."""

    @property
    def uid(self) -> str:
        """The job's UID: the identity that children are compared with."""
        return str(self.job["metadata"]["uid"])


def owned_by(child: Document, *, uid: str) -> bool:
    """Whether `child` is controlled by the object of this UID (never judged by name)."""
    owners = child.get("metadata", {}).get("ownerReferences") or []
    return any(owner.get("controller") and owner.get("uid") == uid for owner in owners)


def is_terminating(child: Document) -> bool:
    """Whether the deletion of `child` has been asked for and has not ended."""
    return bool(child.get("metadata", {}).get("deletionTimestamp"))
