"""A gang that does not come together: who is missing, for how long, why, and what then.

While all containers run, worker 0's launcher says whom it misses; the launcher of a missing worker is asked
for its own view. After `distributed.timeoutSeconds` that is a failure, counted once, and the pod is deleted,
so that the set makes another one. Where worker 0 itself does not answer, neither the operator's failure to
reach it nor its silence alone is proof: another worker has to say the same, or the kubelet's probe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from xeontrain_operator.constants import LAUNCHER_PORT
from xeontrain_operator.reconcile.decision import DeletePod
from xeontrain_operator.reconcile.observed import Document, WorkerAnswer, is_terminating
from xeontrain_operator.reconcile.pods import condition, node_of, pod_uid, trainer_status
from xeontrain_operator.reconcile.situation import Situation
from xeontrain_operator.reconcile.text import quote, sentence

ASK_SECONDS: Final = 20.0
"""Workers start in any order, and their network may need a moment; from here on a missing one is asked."""

MOST_ASKED: Final = 16
"""Workers that are asked, and pods that are deleted, at a time."""

MOST_NAMED: Final = 3
FRESH_SECONDS: Final = 60.0

# A launcher that has no place has no ranks, so there is nothing to save.
GRACE_SECONDS: Final = 10

# What another worker may say of worker 0 that is held against worker 0.
_AGAINST_WORKER_ZERO: Final = frozenset({"Refused", "TimedOut", "Unreachable", "NotTheGang"})

_OPEN_THE_WAY: Final = f"Check network policies and firewalls for port {LAUNCHER_PORT} between the workers."
_REMEDIES: Final = {
    "NameNotFound": "Check the cluster's DNS as that node reaches it.",
    "Refused": _OPEN_THE_WAY,
    "TimedOut": _OPEN_THE_WAY,
    "Unreachable": _OPEN_THE_WAY,
    "NotTheGang": "Check what else has worker 0's address.",
}
_UNASKED: Final = f"Check that node, and network policies for port {LAUNCHER_PORT}."


@dataclass(frozen=True, kw_only=True)
class Absence:
    """A worker that the others wait for."""

    worker: int
    seconds: float
    """For at least so long, while all containers ran."""
    stuck: bool = False
    """It reports, but its ranks of an earlier round do not end."""


@dataclass(frozen=True, kw_only=True)
class Joining:
    """What is known of a gang that does not come together; empty where it does, or cannot be expected to."""

    absent: tuple[Absence, ...] = ()
    ask: tuple[int, ...] = ()
    """Workers whose own launcher can say more."""
    late: tuple[int, ...] = ()
    """Workers whose time is over and against which there is proof: a failure, and their pods go."""


def look(situation: Situation) -> Joining:
    """Who is missing, whom to ask, whose time is over. A pod that was counted already is none of them."""
    together = _together_seconds(situation)
    if together is None:
        return Joining()
    if situation.observed.launcher_error is not None:
        return _worker_zero_silent(situation, together)
    if situation.report is None or 0 in _unheard(situation):
        # It is starting, and says itself what keeps it from that.
        return Joining()
    absent = _absent(situation, together)
    due = [absence for absence in absent if absence.seconds >= ask_seconds(situation)][:MOST_ASKED]
    timeout = situation.spec.distributed.timeout_seconds
    late = [a.worker for a in due if a.seconds >= timeout and (a.stuck or _is_confirmed(situation, a.worker))]
    return Joining(
        absent=tuple(absent),
        ask=tuple(absence.worker for absence in due if not absence.stuck),
        late=tuple(late),
    )


def ask_seconds(situation: Situation) -> float:
    """From when on a missing worker is worth a word of its own."""
    return min(ASK_SECONDS, situation.spec.distributed.timeout_seconds / 2)


def explain_late(situation: Situation, joining: Joining) -> str:
    """Sentences about workers whose time is over: which, where, since when, why, and the remedy."""
    late = joining.late
    stuck = {absence.worker for absence in joining.absent if absence.stuck}
    named = [_late_in_words(situation, worker, stuck=worker in stuck) for worker in late[:MOST_NAMED]]
    more = f" So have {len(late) - MOST_NAMED} more workers." if len(late) > MOST_NAMED else ""
    goes = "Its pod is deleted, and another takes its place."
    go = "Their pods are deleted, and others take their place."
    return f"{' '.join(named)}{more} {goes if len(late) == 1 else go}"


def explain_absence(situation: Situation, absence: Absence) -> str:
    """Why a worker is missing, in its launcher's own words; empty where nobody knows."""
    if absence.stuck:
        return "its ranks of the round before do not end"
    answer = situation.observed.answers.get(absence.worker)
    if absence.worker == 0:
        return f"its launcher does not answer the operator: {situation.observed.launcher_error}"
    if answer is None:
        return ""
    if answer.error is not None:
        return f"its launcher does not answer the operator: {answer.error}"
    trouble = _trouble(answer)
    return quote(trouble.get("message") or "") if trouble else ""


def remove(situation: Situation, removed: Mapping[int, str]) -> list[DeletePod]:
    """The deletion of pods that were counted as late, for as long as they are there.

    `removed`: their UIDs by worker.
    """
    return [
        DeletePod(name=pod["metadata"]["name"], uid=pod_uid(pod), grace_seconds=GRACE_SECONDS)
        for worker, pod in situation.pods.items()
        if removed.get(worker) == pod_uid(pod) and not is_terminating(pod)
    ]


def _together_seconds(situation: Situation) -> float | None:
    """For how long the containers of all workers have run; None while one does not."""
    if not situation.all_run or situation.spec.workers == 0:
        return None
    states = [trainer_status(pod).get("state") or {} for pod in situation.running.values()]
    starts = [(state.get("running") or {}).get("startedAt") for state in states]
    return min(situation.since_seconds(start) for start in starts)


def _unheard(situation: Situation) -> set[int]:
    """Workers that worker 0 has not heard, or hears no more."""
    return set((situation.report or {}).get("missing") or ())


def _displaced(situation: Situation) -> set[int]:
    """Workers of which worker 0 hears another pod than the present one."""
    running = situation.running
    known = {w: member.get("podUid") for w, member in situation.members.items() if w in running}
    return {worker for worker, uid in known.items() if uid not in (None, pod_uid(running[worker]))}


def _absent(situation: Situation, together: float) -> list[Absence]:
    age, unheard, displaced = _report_age_seconds(situation), _unheard(situation), _displaced(situation)
    found = []
    for worker in sorted(situation.running):
        member = situation.members.get(worker) or {}
        if _is_counted(situation, worker):
            continue
        if worker in displaced:
            found.append(Absence(worker=worker, seconds=together))
        elif worker in unheard:
            seen = member.get("lastSeenSeconds")
            found.append(Absence(worker=worker, seconds=_at_most(together, seen, age)))
        elif member.get("state") == "Stopping":
            seconds = _at_most(together, member.get("stateSeconds") or 0.0, age)
            found.append(Absence(worker=worker, seconds=seconds, stuck=True))
    return found


def _at_most(together: float, seconds: float | None, age: float) -> float:
    return together if seconds is None else min(together, seconds + age)


def _report_age_seconds(situation: Situation) -> float:
    report = situation.observed.launcher
    return max(0.0, (situation.now - report.asked_at).total_seconds()) if report is not None else 0.0


def _is_counted(situation: Situation, worker: int) -> bool:
    known = next((entry for entry in situation.status.worker_statuses if entry.worker == worker), None)
    return known is not None and known.removed_pod_uid == pod_uid(situation.pods[worker])


def _is_confirmed(situation: Situation, worker: int) -> bool:
    """Its launcher was asked, and worker 0 has missed it after that: it has not come meanwhile."""
    answer, report = situation.observed.answers.get(worker), situation.observed.launcher
    if answer is None or report is None or answer.pod_uid != pod_uid(situation.running[worker]):
        return False
    return report.asked_at >= answer.asked_at and _is_fresh(situation, answer)


def _is_fresh(situation: Situation, answer: WorkerAnswer) -> bool:
    return (situation.now - answer.asked_at).total_seconds() <= FRESH_SECONDS


def _worker_zero_silent(situation: Situation, together: float) -> Joining:
    if _is_counted(situation, 0):
        return Joining()
    heard, seconds = situation.observed.launcher, together
    if heard is not None:
        seconds = min(together, _report_age_seconds(situation))
    if seconds < ask_seconds(situation):
        return Joining()
    over = seconds >= situation.spec.distributed.timeout_seconds
    proved = _witness(situation) is not None or _unready_seconds(situation) is not None
    others = tuple(worker for worker in sorted(situation.running) if worker != 0)
    return Joining(
        absent=(Absence(worker=0, seconds=seconds),),
        ask=others[:MOST_ASKED],
        late=(0,) if over and proved else (),
    )


def _witness(situation: Situation) -> WorkerAnswer | None:
    """Another worker that does not reach worker 0 either."""
    for answer in situation.observed.answers.values():
        trouble = _trouble(answer)
        lasting = (trouble.get("seconds") or 0.0) >= ask_seconds(situation)
        if trouble.get("reason") in _AGAINST_WORKER_ZERO and lasting and _is_fresh(situation, answer):
            return answer
    return None


def _unready_seconds(situation: Situation) -> float | None:
    """For how long worker 0 has failed the kubelet's probe on its own node, where that is long enough."""
    ready: Document = condition(situation.running[0], "Ready")
    if ready.get("status") != "False":
        return None
    seconds = situation.since_seconds(ready.get("lastTransitionTime"))
    return seconds if seconds >= situation.spec.distributed.timeout_seconds else None


def _trouble(answer: WorkerAnswer) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (answer.status or {}).get("trouble") or {}
    return found


def _late_in_words(situation: Situation, worker: int, *, stuck: bool) -> str:
    pod = situation.pods[worker]
    who = f"Worker {worker} (pod {pod['metadata']['name']} on node {node_of(pod)})"
    limit = f"for spec.distributed.timeoutSeconds ({situation.spec.distributed.timeout_seconds} s)"
    if worker == 0:
        return f"{who} has not answered {limit}: {_why_worker_zero(situation)}"
    if stuck:
        return (
            f"{who} has not become free {limit}: its ranks do not end although they were killed. "
            "A file system or a device of its node hangs."
        )
    return f"{who} has not joined the others {limit}: {_why(situation, worker)}"


def _why(situation: Situation, worker: int) -> str:
    answer = situation.observed.answers.get(worker)
    if answer is None or answer.error is not None:
        said = answer.error if answer is not None else "it was not asked"
        return f"{sentence(f'its launcher does not answer the operator either: {said}')} {_UNASKED}"
    trouble = _trouble(answer)
    if not trouble:
        return "its launcher hears a worker 0, so another pod may have that name's address."
    reason = str(trouble.get("reason"))
    said = sentence(f"its launcher says {quote(reason)}: {quote(trouble.get('message') or '')}")
    return f"{said} {_REMEDIES[reason]}" if reason in _REMEDIES else said


def _why_worker_zero(situation: Situation) -> str:
    said = f"the operator gets no answer ({situation.observed.launcher_error})"
    witness = _witness(situation)
    if witness is not None:
        says = quote(_trouble(witness).get("message") or "")
        return sentence(f"{said}, and worker {witness.worker} says: {says}")
    return f"{said}, and it fails the readiness probe on its own node."
