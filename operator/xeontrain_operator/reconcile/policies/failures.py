"""Counting failures and preemptions, each once, from facts that stay readable.

Three things fail: a round, which the coordinator counts and lists by id; a whole container, which nobody but
the operator can count (OOM kills launcher and ranks together); and a worker that does not join the others in
time, whose pod the operator deletes. A pod that is replaced without the operator asking for it is a
preemption. The memory needed is in the status itself: `restarts.lastCounted`, and each worker's pod UID,
counted restarts and the UID of the pod that was deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from xeontrain_operator.api.v1alpha1 import RestartsStatus, WorkerStatus
from xeontrain_operator.reconcile.causes import last_end
from xeontrain_operator.reconcile.observed import Document, is_terminating
from xeontrain_operator.reconcile.pods import (
    disruption,
    node_of,
    pod_uid,
    restart_count,
    terminations,
    trainer_status,
)
from xeontrain_operator.reconcile.policies.joins import explain_late, look
from xeontrain_operator.reconcile.situation import Situation
from xeontrain_operator.reconcile.text import quote, sentence
from xeontrain_operator.reconcile.verdict import has_document

REASON_LIMIT = 1024
ROUND_DIGITS = 12


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What is remembered of one worker: the pod that was counted last, and how many of its ends."""

    pod_uid: str | None = None
    restarts: int = 0
    removed: str | None = None
    """UID of the pod that was deleted, or is to be, because it did not join in time."""
    disruption: str | None = None
    """Why Kubernetes takes that pod away: seen on the pod as it goes, told once its successor runs."""


@dataclass(frozen=True, kw_only=True)
class Counted:
    """The outcome of counting."""

    restarts: RestartsStatus
    memories: Mapping[int, Memory]

    @property
    def removed(self) -> dict[int, str]:
        """UIDs of pods that did not join, by worker; one that has a successor at work is none of them."""
        return {worker: known.removed for worker, known in self.memories.items() if known.removed}


@dataclass(frozen=True, kw_only=True)
class _Pod:
    memory: Memory
    ends: int = 0
    """Whole-container ends not counted before."""
    replaced: bool = False


def count(situation: Situation) -> Counted:
    """Failures and preemptions so far, and the memory that keeps them from being counted twice."""
    known = {entry.worker: _memory(entry) for entry in situation.status.worker_statuses}
    if situation.status.phase == "Suspended":
        # Pods that are still there are on their way out at our own wish.
        return Counted(restarts=situation.status.restarts or RestartsStatus(display="0"), memories=known)
    seen = {
        worker: _look(pod, known=known.get(worker, Memory()), uid=situation.observed.uid)
        for worker, pod in situation.pods.items()
    }
    rounds, last_counted = _new_rounds(situation)
    ends = {worker: pod.ends for worker, pod in seen.items() if pod.ends}
    replaced = [worker for worker, pod in seen.items() if pod.replaced]
    # Many that are missing at one time have one cause, as a round that ends has.
    joining = look(situation)
    late = joining.late
    old = situation.status.restarts or RestartsStatus()
    failures = old.failures + len(rounds) + sum(ends.values()) + bool(late)
    preemptions = old.preemptions + len(replaced)
    reasons = [
        *(_preemption_in_words(worker, known=known[worker]) for worker in replaced),
        *(_round_in_words(situation, failure) for failure in rounds),
        *(_end_in_words(situation, worker) for worker in ends),
        *([explain_late(situation, joining)] if late else []),
    ]
    restarts = RestartsStatus(
        failures=failures,
        preemptions=preemptions,
        last_reason=" ".join(reasons)[:REASON_LIMIT] if reasons else old.last_reason,
        last_counted=last_counted,
        display=f"{failures} (+{preemptions})" if preemptions else str(failures),
    )
    memories = {**known, **{w: pod.memory for w, pod in seen.items()}}
    removed = {worker: Memory(removed=pod_uid(situation.pods[worker])) for worker in late}
    return Counted(restarts=restarts, memories=memories | removed)


def ends_of(pod: Document) -> int:
    """How often the trainer container of this pod has ended, the present end included."""
    state = trainer_status(pod).get("state") or {}
    waits_after_end = (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff"
    return restart_count(pod) + (1 if state.get("terminated") or waits_after_end else 0)


def _memory(entry: WorkerStatus) -> Memory:
    return Memory(
        pod_uid=entry.pod_uid,
        restarts=entry.restarts,
        removed=entry.removed_pod_uid,
        disruption=entry.disruption,
    )


def _look(pod: Document, *, known: Memory, uid: str) -> _Pod:
    """A pod on its way out, or one whose container never ran, tells nothing that counts. `Failed` is the
    kubelet's doing (eviction, shutdown, refusal): the pod that comes after it shows the preemption."""
    ended = terminations(pod)
    started = "running" in (trainer_status(pod).get("state") or {}) or bool(ended)
    gone = is_terminating(pod) or known.removed == pod_uid(pod)
    if gone or not started or (pod.get("status") or {}).get("phase") == "Failed":
        seen = disruption(pod) if known.pod_uid == pod_uid(pod) else None
        why = quote(seen) if seen else known.disruption
        return _Pod(memory=replace(known, disruption=why))
    same = known.pod_uid == pod_uid(pod)
    ends = ends_of(pod)
    new_ends = max(0, ends - (known.restarts if same else 0))
    # An end with the result document is the launcher's own way of telling the verdict.
    counted = 0 if ended and has_document(ended[0], uid=uid) else new_ends
    return _Pod(
        memory=Memory(pod_uid=pod_uid(pod), restarts=ends),
        ends=counted,
        replaced=known.pod_uid is not None and not same,
    )


def _new_rounds(situation: Situation) -> tuple[list[Mapping[str, Any]], str | None]:
    old = (situation.status.restarts or RestartsStatus()).last_counted
    report = situation.report or {}
    own = [(f, _split(f.get("id"))) for f in report.get("failures") or ()]
    numbered = [(f, key[1]) for f, key in own if key is not None and key[0] == report.get("podUid")]
    listed = [f for f, _ in sorted(numbered, key=lambda item: item[1])]
    new = [failure for failure in listed if _is_newer(failure["id"], than=old)]
    return new, (str(new[-1]["id"]) if new else old)


def _is_newer(identity: str, *, than: str | None) -> bool:
    """Rounds are numbered upwards by one coordinator; another coordinator lists none but its own."""
    this, other = _split(identity), _split(than)
    if this is None or other is None or this[0] != other[0]:
        return True
    return this[1] > other[1]


def _split(identity: object) -> tuple[str, int] | None:
    pod, slash, number = str(identity).rpartition("/")
    return (pod, int(number)) if slash and number.isdecimal() and len(number) <= ROUND_DIGITS else None


def _preemption_in_words(worker: int, *, known: Memory) -> str:
    why = f" ({known.disruption})" if known.disruption else ": its pod was deleted, or its node went"
    return f"Worker {worker} was replaced with no failure of its own{why}."


def _round_in_words(situation: Situation, failure: Mapping[str, Any]) -> str:
    return f"Round {failure.get('round')}: {describe_failure(situation, failure)}"


def describe_failure(situation: Situation, failure: Mapping[str, Any]) -> str:
    """A failure of docs/contract.md in a sentence: who, on which node, how it ended, and its own last
    words."""
    who = [f"{name} {failure[name]}" for name in ("worker", "rank") if failure.get(name) is not None]
    worker = failure.get("worker")
    pod = situation.pods.get(worker) if isinstance(worker, int) else None
    node = node_of(pod) if pod is not None else None
    if who and node:
        who[0] += f" on node {node}"
    if failure.get("signal"):
        how = f"killed by signal {failure['signal']}"
    elif failure.get("exitCode") is not None:
        how = f"exit code {failure['exitCode']}"
    else:
        how = ""
    said = quote(failure.get("message") or "")
    text = ", ".join([*who, *([how] if how else [])])
    return sentence(f"{text}: {said}" if text and said else text or said or "no cause was reported")


def _end_in_words(situation: Situation, worker: int) -> str:
    pod = situation.pods[worker]
    text = sentence(f"Worker {worker}: its container ended whole: {last_end(pod)}")
    if any(ended.get("reason") == "OOMKilled" for ended in terminations(pod)[:1]):
        limit = situation.spec.resources.memory
        text += f" spec.resources.memory is {limit}: raise it, or lower what the run needs."
    return text
