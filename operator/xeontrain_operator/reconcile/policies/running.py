"""The condition Running of a job that lives: what it does, or what it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from xeontrain_operator.api import conditions as c
from xeontrain_operator.api.v1alpha1 import Phase
from xeontrain_operator.reconcile.policies import joins
from xeontrain_operator.reconcile.policies.failures import Counted
from xeontrain_operator.reconcile.policies.progress import duration_text
from xeontrain_operator.reconcile.situation import Situation
from xeontrain_operator.reconcile.text import counted as counted_noun
from xeontrain_operator.reconcile.text import quote, sentence
from xeontrain_operator.reconcile.word import Word

SILENT_SECONDS: Final = 10.0
"""After this long without an answer of worker 0's launcher the condition says so."""

STRAGGLER_SECONDS: Final = 60.0
"""Ranks do not end in the same moment, and rank 0 may have a model to write."""

MOST_NAMED: Final = 16


def judge_running(situation: Situation, *, counted: Counted, phase: Phase) -> Word:
    """True while the ranks run; else the first that is known of what keeps them from it."""
    if phase == "Running":
        return _trains(situation)
    checks = (_cause(situation), _removed(counted), _absent(situation), _not_ready(situation))
    found = next((word for word in checks if word is not None), None)
    return found or _on_its_way(situation, counted=counted, phase=phase)


def _waits(reason: str, message: str) -> Word:
    return Word(status="False", reason=reason, message=message)


def _trains(situation: Situation) -> Word:
    workers = situation.spec.workers
    who = "The worker trains." if workers == 1 else f"All {workers} workers train."
    found: Mapping[str, Any] = (situation.report or {}).get("stragglers") or {}
    seconds = found.get("seconds") or 0.0
    if seconds < STRAGGLER_SECONDS or not found.get("ranks"):
        return Word(status="True", reason=c.TRAINING, message=who)
    names = ", ".join(str(rank) for rank in found["ranks"][:MOST_NAMED])
    more = found["count"] - len(found["ranks"][:MOST_NAMED])
    ranks = f"Rank {names} still runs" if found["count"] == 1 else f"Ranks {names} still run"
    if more > 0:
        ranks = f"Ranks {names} and {more} more still run"
    message = (
        f"{ranks}; others have ended with success {_since(seconds)} ago. The job ends with its last rank, or "
        "at spec.runPolicy.activeDeadlineSeconds."
    )
    return Word(status="True", reason=c.WAITING_FOR_RANKS, message=message)


def _since(seconds: float) -> str:
    """In steps that grow, so that time passing changes the status ever more seldom."""
    unit = 60 if seconds < 600 else 600 if seconds < 3600 else 3600
    return duration_text(int(seconds // unit) * unit)


def _cause(situation: Situation) -> Word | None:
    cause = next((cause for cause in situation.causes if cause.condition == c.RUNNING), None)
    return None if cause is None else _waits(cause.reason, cause.message)


def _removed(counted: Counted) -> Word | None:
    if not counted.removed:
        return None
    return _waits(c.NEVER_JOINED, counted.restarts.last_reason or "A worker did not join the others in time.")


def _absent(situation: Situation) -> Word | None:
    """Who is missed for longer than a start takes, and why as far as that is known."""
    absent = [a for a in joins.look(situation).absent if a.seconds >= joins.ask_seconds(situation)]
    if not absent:
        return None
    reasons = [(a.worker, joins.explain_absence(situation, a)) for a in absent]
    known = [f"worker {worker}: {why}" for worker, why in reasons if why][: joins.MOST_NAMED]
    names = ", ".join(str(absence.worker) for absence in absent[:MOST_NAMED])
    who = f"Waiting for {len(absent)} of {situation.spec.workers} workers to join: {names}"
    return _waits(c.WAITING_FOR_WORKERS, sentence(f"{who} ({'; '.join(known)})" if known else who))


def _not_ready(situation: Situation) -> Word | None:
    """What worker 0's launcher says of itself."""
    trouble: Mapping[str, Any] = (situation.report or {}).get("trouble") or {}
    if not trouble or not situation.all_run:
        return None
    return _waits(c.NOT_READY, sentence(f"Worker 0: {quote(trouble.get('message') or '')}"))


def _on_its_way(situation: Situation, *, counted: Counted, phase: Phase) -> Word:
    workers, missing = situation.spec.workers, (situation.report or {}).get("missing") or []
    if phase == "Restarting":
        return _waits(c.RESTARTING, counted.restarts.last_reason or "The ranks start again.")
    if phase == "Starting" and missing:
        names = ", ".join(str(worker) for worker in missing[:MOST_NAMED])
        message = f"Waiting for {len(missing)} of {workers} workers to join: {names}."
        return _waits(c.WAITING_FOR_WORKERS, message)
    if phase == "Starting":
        return _waits(c.STARTING, _starting_message(situation))
    return _waits(c.CREATING, _pending_message(situation))


def _starting_message(situation: Situation) -> str:
    """A launcher needs a moment to serve; after that its silence is worth a word."""
    error, age = situation.observed.launcher_error, situation.since_seconds(situation.status.start_time)
    if situation.report is None and error is not None and age > SILENT_SECONDS:
        return f"All workers run, but worker 0's launcher does not answer the operator: {error}."
    return "All workers run; the ranks are starting."


def _pending_message(situation: Situation) -> str:
    if situation.leftovers:
        kinds = " and ".join(child["kind"] for child in situation.leftovers)
        return f"Waiting until the {kinds} of an earlier job of this name is gone."
    if situation.old_pods and situation.stateful_set is None:
        return f"Waiting until {counted_noun(len(situation.old_pods), 'pod')} of the run before are gone."
    return f"{len(situation.running)} of {situation.spec.workers} workers run."
