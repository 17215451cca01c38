"""A job, what was observed of it and the time: what every policy reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from xeontrain_operator.api.conditions import CLAIM_PENDING
from xeontrain_operator.api.v1alpha1 import XeonTrainJob, XeonTrainJobSpec, XeonTrainJobStatus
from xeontrain_operator.constants import KIND
from xeontrain_operator.reconcile.causes import Cause, find_causes
from xeontrain_operator.reconcile.observed import Document, Observed, is_terminating, owned_by
from xeontrain_operator.reconcile.pods import by_worker, is_running, pod_uid
from xeontrain_operator.settings import Settings

CLAIM_SECONDS = 5.0
"""How long a new claim may be without a volume before that is worth a word."""


@dataclass(frozen=True)
class Situation:
    """Everything a decision is made from. Read only."""

    job: XeonTrainJob
    observed: Observed
    settings: Settings
    now: datetime

    @property
    def spec(self) -> XeonTrainJobSpec:
        """What is wanted."""
        return self.job.spec

    @property
    def status(self) -> XeonTrainJobStatus:
        """What was written last."""
        return self.job.status

    @cached_property
    def stateful_set(self) -> Document | None:
        """The set, if it is this job's."""
        found = self.observed.stateful_set
        return found if found is not None and owned_by(found, uid=self.observed.uid) else None

    @cached_property
    def pods(self) -> dict[int, Document]:
        """Pods by worker, terminating ones included."""
        numbered = by_worker(self.observed.pods)
        return {worker: pod for worker, pod in numbered.items() if worker < self.spec.workers}

    @cached_property
    def running(self) -> dict[int, Document]:
        """Those whose trainer container runs."""
        return {worker: pod for worker, pod in self.pods.items() if is_running(pod)}

    @property
    def all_run(self) -> bool:
        """Whether every worker's container runs."""
        return len(self.running) >= self.spec.workers

    @cached_property
    def causes(self) -> list[Cause]:
        """What keeps workers from running, the gravest first."""
        return [cause for cause in self._all_causes if cause not in self.young_causes]

    @cached_property
    def young_causes(self) -> list[Cause]:
        """What is part of every start and worth no word yet: a new claim that is just being provided."""
        return [
            cause for cause in self._all_causes if cause.reason == CLAIM_PENDING and self._is_young(cause)
        ]

    @cached_property
    def _all_causes(self) -> list[Cause]:
        return find_causes(
            pods=self.observed.pods,
            stateful_set=self.stateful_set,
            events=self.observed.events,
            workers=self.spec.workers,
        )

    def _is_young(self, cause: Cause) -> bool:
        return all(self.age_seconds(self.pods[worker]) < CLAIM_SECONDS for worker in cause.workers)

    @cached_property
    def report(self) -> Mapping[str, Any] | None:
        """What worker 0's launcher says, if it is that of the pod that runs as worker 0 now."""
        found, pod = self.observed.launcher, self.running.get(0)
        if found is None or pod is None:
            return None
        ours = found.status.get("jobUid") == self.observed.uid and found.status.get("podUid") == pod_uid(pod)
        return found.status if ours else None

    @cached_property
    def members(self) -> dict[int, Mapping[str, Any]]:
        """What worker 0 knows of each worker; empty while it has not been heard."""
        members = (self.report or {}).get("members") or ()
        return {member["worker"]: member for member in members}

    @cached_property
    def named_children(self) -> list[Document]:
        """Objects that stand under the names of this job's children."""
        seen = self.observed
        children = (seen.service, seen.config_map, seen.network_policy, seen.stateful_set)
        return [child for child in children if child is not None]

    @cached_property
    def leftovers(self) -> list[Document]:
        """Children of an earlier job of this name, which garbage collection has yet to take away."""
        return [child for child in self.named_children if self._is_leftover(child)]

    @cached_property
    def foreign(self) -> list[Document]:
        """Objects of somebody else under our children's names."""
        uid = self.observed.uid
        others = (child for child in self.named_children if not owned_by(child, uid=uid))
        return [child for child in others if not self._is_leftover(child)]

    @cached_property
    def old_pods(self) -> list[Document]:
        """Pods of a set of this job's that is no more: a new set cannot make pods under their names. Those
        that a deletion with `--cascade=orphan` left behind are none: the new set adopts them."""
        current = self.stateful_set["metadata"]["uid"] if self.stateful_set else ""
        others = (pod for pod in self.observed.pods if not owned_by(pod, uid=current))
        return [pod for pod in others if is_terminating(pod) or pod["metadata"].get("ownerReferences")]

    def _is_leftover(self, child: Document) -> bool:
        owners = child["metadata"].get("ownerReferences") or ()
        earlier = [
            owner
            for owner in owners
            if owner.get("kind") == KIND
            and owner.get("name") == self.job.metadata.name
            and owner.get("uid") != self.observed.uid
        ]
        return bool(earlier)

    def age_seconds(self, child: Document) -> float:
        """Seconds since the child was made."""
        return self.since_seconds(child["metadata"].get("creationTimestamp"))

    def since_seconds(self, time: str | None) -> float:
        """Seconds since an RFC 3339 time; 0 where there is none or it lies ahead."""
        return max(0.0, (self.now - parse_time(time)).total_seconds()) if time else 0.0


def parse_time(time: str) -> datetime:
    """An RFC 3339 time of the API's. Raises ValueError."""
    parsed = datetime.fromisoformat(time)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


__all__ = ["Situation", "is_terminating", "parse_time"]
