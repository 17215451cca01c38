"""The workers as the status shows them: how many are there, and where each one runs on what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from xeontrain_operator.api.v1alpha1 import TriState, WorkersStatus, WorkerStatus
from xeontrain_operator.reconcile.observed import Document, is_terminating
from xeontrain_operator.reconcile.pods import node_of, trainer_status
from xeontrain_operator.reconcile.policies.failures import Counted, Memory
from xeontrain_operator.reconcile.situation import Situation
from xeontrain_operator.reconcile.text import significant

_LAUNCHER_STATES = ("Waiting", "Starting", "Running", "Stopping", "Parked")


def count_workers(situation: Situation) -> WorkersStatus:
    """A worker is ready when its container runs and, where worker 0 is heard, has joined the gang."""
    missing = set((situation.report or {}).get("missing") or ())
    ready = len([worker for worker in situation.running if worker not in missing])
    desired = situation.spec.workers
    return WorkersStatus(desired=desired, ready=ready, display=f"{ready}/{desired}")


def list_workers(situation: Situation, *, counted: Counted) -> tuple[WorkerStatus, ...]:
    """One entry a worker that has a pod or had one, with the memory of what was counted of it."""
    known = {entry.worker: entry for entry in situation.status.worker_statuses}
    rates = _rates(situation)
    workers = sorted({*known, *situation.pods, *counted.memories})
    return tuple(
        _entry(
            worker,
            pod=situation.pods.get(worker),
            old=known.get(worker),
            member=situation.members.get(worker) or {},
            memory=counted.memories.get(worker, Memory()),
            rate=rates[worker] if worker < len(rates) else None,
        )
        for worker in workers
        if worker < situation.spec.workers
    )


def forget_pod(entry: WorkerStatus) -> WorkerStatus:
    """The entry of a worker whose pod the operator takes away itself: the next one is no preemption."""
    return WorkerStatus(worker=entry.worker)


def _rates(situation: Situation) -> Sequence[float | None]:
    """Samples a second of each worker by itself, as the ranks measured; empty where they have not."""
    progress: Mapping[str, Any] = (situation.report or {}).get("progress") or {}
    return progress.get("workerSamplesPerSecond") or ()


def _entry(
    worker: int,
    *,
    pod: Document | None,
    old: WorkerStatus | None,
    member: Mapping[str, Any],
    memory: Memory,
    rate: float | None,
) -> WorkerStatus:
    cpu: Mapping[str, Any] = member.get("cpu") or {}
    exclusive = cpu.get("exclusive") if cpu.get("exclusive") in get_args(TriState) else None
    # What was known of the CPUs stands until the same worker says otherwise, or has another pod.
    stands = old is not None and pod is not None and old.pod_uid == pod["metadata"]["uid"] and not cpu
    return WorkerStatus(
        worker=worker,
        pod=None if pod is None else pod["metadata"]["name"],
        pod_uid=memory.pod_uid,
        node=None if pod is None else node_of(pod),
        state=_state(pod, member, known=old.state if stands and old else None),
        cpus=old.cpus if stands and old else _cut(cpu.get("cpus"), 1024),
        exclusive=old.exclusive if stands and old else exclusive,
        reason=old.reason if stands and old else _cut(cpu.get("reason"), 128),
        samples_per_second=old.samples_per_second
        if stands and old and rate is None
        else significant(rate, digits=2),
        restarts=memory.restarts,
        removed_pod_uid=memory.removed,
        disruption=memory.disruption,
    )


def _state(pod: Document | None, member: Mapping[str, Any], *, known: str | None) -> str:
    """The launcher's word where it is heard, now or before; else the container's."""
    if pod is None:
        return "NoPod"
    if is_terminating(pod):
        return "Terminating"
    state: Mapping[str, Any] = trainer_status(pod).get("state") or {}
    if "running" in state:
        heard_before = known if known in _LAUNCHER_STATES else None
        return str(member.get("state") or heard_before or "Starting")[:64]
    if "terminated" in state:
        return "Terminated"
    waiting = (state.get("waiting") or {}).get("reason")
    return str(waiting or (pod.get("status") or {}).get("phase") or "Pending")[:64]


def _cut(text: str | None, limit: int) -> str | None:
    return None if text is None else text[:limit]
