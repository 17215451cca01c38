"""Jobs that hold some of their nodes and wait for what another such job holds: one must give way.

Of those that have waited past `runPolicy.preRunningDeadlineSeconds` the first (higher priority, then older)
keeps its pods. The others scale to 0, and try again once the first has all its nodes or is gone, or after a
while. A job without such a rival keeps its pods: that they are Pending is what makes an autoscaler act. The
record of having given way is `Placed=Unknown` with the reason YieldedNodes, and its transition time.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from xeontrain_operator.api import conditions as c
from xeontrain_operator.api.errors import InvalidJobError
from xeontrain_operator.api.v1alpha1 import Condition, XeonTrainJob, parse_job
from xeontrain_operator.builders.placement import choose_nodes
from xeontrain_operator.reconcile.observed import Document, is_terminating
from xeontrain_operator.reconcile.pods import condition, node_of
from xeontrain_operator.reconcile.situation import Situation, parse_time
from xeontrain_operator.settings import Settings

LOOK_SECONDS: Final = 10.0
"""How often a job that has given way, or that may have to, looks at the others."""
BACK_OFF_SECONDS: Final = 60.0
"""At least as long it keeps away where the other one does not get on either; up to twice that, by its UID, so
that jobs that gave way together do not meet again."""


@dataclass(frozen=True)
class Yielding:
    """`seconds`: for which the job is to have no pods; None: it keeps them. `to`: for whom."""

    seconds: float | None = None
    to: str | None = None
    look_again: float | None = None
    """Seconds until it is to be judged anew; None where nothing is to be waited for."""
    ask: bool = False
    """Whether the others matter at this moment, and are to be read."""


def judge_yielding(situation: Situation) -> Yielding:
    """Whether the job gives way, goes on giving way, or has its turn again."""
    me = _Claim.of(situation.job, pods=tuple(situation.pods.values()), settings=situation.settings)
    stopped = yielded(situation)
    if stopped is not None:
        return _has_yielded(situation, me, since=stopped.last_transition_time)
    if not me.holds_some:
        return Yielding()
    left = me.patience_seconds - me.waits_seconds(situation)
    if left > 0:
        return Yielding(look_again=left)
    first = _first_rival(situation, me)
    if first is None or first.waits_seconds(situation) < first.patience_seconds:
        return Yielding(look_again=LOOK_SECONDS, ask=True)
    return Yielding(_back_off_seconds(situation), to=first.name, look_again=LOOK_SECONDS, ask=True)


def _has_yielded(situation: Situation, me: _Claim, *, since: str | None) -> Yielding:
    left = _back_off_seconds(situation) - situation.since_seconds(since)
    if left <= 0:
        return Yielding()
    if situation.observed.rivals is None:
        return Yielding(left, look_again=LOOK_SECONDS, ask=True)
    first = _first_rival(situation, me)
    if first is None:
        return Yielding()
    return Yielding(left, to=first.name, look_again=min(left, LOOK_SECONDS), ask=True)


def yielded(situation: Situation) -> Condition | None:
    """The record that the job has given way, whether it still does or is due for another try."""
    placed = c.find_condition(situation.status.conditions, c.PLACED)
    if placed is None or placed.status != "Unknown" or placed.reason != c.YIELDED_NODES:
        return None
    return placed


def _back_off_seconds(situation: Situation) -> float:
    share = zlib.crc32(situation.observed.uid.encode()) / 2**32
    return BACK_OFF_SECONDS * (1 + share)


def _first_rival(situation: Situation, me: _Claim) -> _Claim | None:
    """Of the others that hold some of their nodes in the same pool, the first; None where this job is."""
    jobs = ((_readable(rival.job), rival.pods) for rival in situation.observed.rivals or ())
    claims = (_Claim.of(job, pods=pods, settings=situation.settings) for job, pods in jobs if job is not None)
    earlier = (one for one in claims if one.order < me.order and one.holds_some and one.overlaps(me))
    return min(earlier, key=lambda one: one.order, default=None)


def _readable(job: Document) -> XeonTrainJob | None:
    """None for a job that cannot be read: it makes no pods."""
    try:
        return parse_job(job)
    except InvalidJobError:
        return None


@dataclass(frozen=True)
class _Claim:
    """What a job holds and waits for."""

    job: XeonTrainJob
    pods: tuple[Document, ...]
    settings: Settings

    @classmethod
    def of(cls, job: XeonTrainJob, *, pods: tuple[Document, ...], settings: Settings) -> _Claim:
        """Of a job with these pods; those on their way out hold nothing any more."""
        return cls(job, tuple(pod for pod in pods if not is_terminating(pod)), settings)

    @property
    def name(self) -> str:
        """Namespace and name."""
        return f"{self.job.metadata.namespace}/{self.job.metadata.name}"

    @property
    def order(self) -> tuple[int, str, str]:
        """The least keeps its pods. Pods carry the priority that the API server found for them."""
        priority = max(((pod.get("spec") or {}).get("priority") or 0 for pod in self.pods), default=0)
        metadata = self.job.metadata
        return (-priority, metadata.creation_timestamp or "", metadata.uid)

    @cached_property
    def waiting(self) -> list[Document]:
        """Pods that the scheduler finds no node for."""
        return [pod for pod in self.pods if condition(pod, "PodScheduled").get("status") == "False"]

    @property
    def holds_some(self) -> bool:
        """Whether it has some of its nodes, but not all."""
        return bool(self.waiting) and any(node_of(pod) for pod in self.pods)

    @property
    def patience_seconds(self) -> float:
        """How long it may wait before it gives way, or others do for it."""
        return float(self.job.spec.run_policy.pre_running_deadline_seconds)

    def waits_seconds(self, situation: Situation) -> float:
        """Since the pod that waits longest was made."""
        made = [parse_time(pod["metadata"]["creationTimestamp"]) for pod in self.waiting]
        return max(0.0, (situation.now - min(made)).total_seconds()) if made else 0.0

    @cached_property
    def selector(self) -> dict[str, str]:
        """Labels of the nodes that could serve it."""
        return choose_nodes(self.job, settings=self.settings).node_selector

    def overlaps(self, other: _Claim) -> bool:
        """Whether a node could serve both, as far as node selectors tell."""
        return all(other.selector.get(key, value) == value for key, value in self.selector.items())
