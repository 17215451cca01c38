"""The events of a change of status, so that `kubectl describe` reads like a story: one a change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from xeontrain_operator.api import conditions as c
from xeontrain_operator.api.v1alpha1 import Condition, RestartsStatus, XeonTrainJobStatus
from xeontrain_operator.reconcile.decision import JobEvent
from xeontrain_operator.reconcile.text import counted

# Reasons under which conditions only wait, as they do at the beginning of every job.
_ROUTINE = frozenset({c.CREATING, c.STARTING, c.WAITING_FOR_WORKERS, c.RESTARTING, c.SUSPENDED_BY_USER})
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class _Change:
    old: XeonTrainJobStatus
    new: XeonTrainJobStatus

    def turned(self, type_: str) -> Condition | None:
        """The new condition, if its status or its reason is not what it was."""
        before = c.find_condition(self.old.conditions, type_)
        after = c.find_condition(self.new.conditions, type_)
        if after is None:
            return None
        same = before is not None and (before.status, before.reason) == (after.status, after.reason)
        return None if same else after


def tell(old: XeonTrainJobStatus, new: XeonTrainJobStatus, *, made_workers: str | None) -> list[JobEvent]:
    """What happened between two statuses, in the order in which it did.

    `made_workers`: a sentence about the set that this reconcile makes, if it makes one.
    """
    change = _Change(old, new)
    chapters: tuple[Callable[[_Change], list[JobEvent]], ...] = (
        _acceptance,
        _warnings,
        _suspension,
        lambda _: [JobEvent(reason="WorkersCreated", message=made_workers)] if made_workers else [],
        _obstacles,
        _start,
        _interruptions,
        _training,
        _pinning,
        _processors,
        _resume,
        _end,
        _cleaning,
    )
    return [event for chapter in chapters for event in chapter(change)]


def _acceptance(change: _Change) -> list[JobEvent]:
    found = change.turned(c.ACCEPTED)
    if found is None:
        return []
    if found.status == "True":
        return [JobEvent(reason="Accepted", message=found.message)]
    return [JobEvent(reason=found.reason, message=found.message, type="Warning")]


def _warnings(change: _Change) -> list[JobEvent]:
    found = (change.turned(type_) for type_ in (c.STORAGE, c.CHILDREN))
    return [
        JobEvent(reason=condition.reason, message=condition.message, type="Warning")
        for condition in found
        if condition is not None and condition.status == "False"
    ]


def _suspension(change: _Change) -> list[JobEvent]:
    found = change.turned(c.SUSPENDED)
    if found is None:
        return []
    return [JobEvent(reason="Suspended" if found.status == "True" else "Resumed", message=found.message)]


def _obstacles(change: _Change) -> list[JobEvent]:
    if change.new.phase in _ENDED:
        return []
    events = []
    for type_ in (c.PLACED, c.RUNNING):
        found = change.turned(type_)
        if found is not None and found.status != "True" and found.reason not in _ROUTINE:
            events.append(JobEvent(reason=found.reason, message=found.message, type="Warning"))
    return events


def _start(change: _Change) -> list[JobEvent]:
    if change.old.start_time is not None or change.new.start_time is None:
        return []
    desired = change.new.workers.desired if change.new.workers else 0
    who = "The worker runs" if desired == 1 else f"All {desired} workers run"
    nodes = sorted({entry.node for entry in change.new.worker_statuses if entry.node})
    where = f" on {', '.join(nodes[:8])}{' and more' if len(nodes) > 8 else ''}" if nodes else ""
    return [JobEvent(reason="WorkersRunning", message=f"{who}{where}.")]


def _interruptions(change: _Change) -> list[JobEvent]:
    old, new = change.old.restarts or RestartsStatus(), change.new.restarts or RestartsStatus()
    if change.new.phase in _ENDED:
        return []
    if change.turned(c.RUNNING) and c.has_reason(change.new.conditions, c.RUNNING, c.NEVER_JOINED):
        # Told as an obstacle already: nothing has run that would start again.
        return []
    if new.failures > old.failures:
        message = f"{new.last_reason or 'A failure.'} {_where_ranks_begin(change.new)}"
        return [JobEvent(reason="RoundRestarted", message=message, type="Warning")]
    if new.preemptions > old.preemptions:
        message = f"{new.last_reason or 'A worker was replaced.'} {_where_ranks_begin(change.new)}"
        return [JobEvent(reason="WorkerReplaced", message=message, type="Warning")]
    return []


def _where_ranks_begin(status: XeonTrainJobStatus) -> str:
    """What the interruption costs, as far as it is known."""
    step = status.progress.last_checkpoint_step if status.progress else None
    return "All ranks start again." if step is None else f"All ranks go on from step {step}, the last saved."


def _training(change: _Change) -> list[JobEvent]:
    found = change.turned(c.RUNNING)
    if found is not None and found.reason == c.WAITING_FOR_RANKS and change.old.phase == "Running":
        return [JobEvent(reason=found.reason, message=found.message, type="Warning")]
    if change.new.phase != "Running" or change.old.phase == "Running":
        return []
    again = change.old.phase == "Restarting"
    reason: Literal["TrainingStarted", "TrainingResumed"] = "TrainingResumed" if again else "TrainingStarted"
    return [JobEvent(reason=reason, message=_ranks_in_words(change.new))]


def _ranks_in_words(status: XeonTrainJobStatus) -> str:
    cpu = status.cpu
    if cpu is None or not cpu.ranks:
        return "The ranks run."
    who = "1 rank runs" if cpu.ranks == 1 else f"{cpu.ranks} ranks run"
    cores = f" on {counted(cpu.cores_per_rank, 'core')} each" if cpu.cores_per_rank else ""
    model = f" of {cpu.model}" if cpu.model and cores else ""
    how = ", ".join(text for text in (cpu.precision, cpu.backend) if text)
    return f"{who}{cores}{model}{f' ({how})' if how else ''}."


def _pinning(change: _Change) -> list[JobEvent]:
    found = change.turned(c.CPU_PINNED)
    first_word = found is not None and c.find_condition(change.old.conditions, c.CPU_PINNED) is None
    if found is None or (first_word and found.status == "Unknown") or found.reason == c.DISABLED:
        return []
    if found.status == "True":
        return [JobEvent(reason="CPUPinned", message=found.message)]
    return [JobEvent(reason=found.reason, message=found.message, type="Warning")]


def _processors(change: _Change) -> list[JobEvent]:
    """What slows a run down and a person could change; that all is well is no news."""
    found = (change.turned(type_) for type_ in (c.CPU_UNIFORM, c.PRECISION_NATIVE))
    return [
        JobEvent(reason=one.reason, message=one.message, type="Warning")
        for one in found
        if one is not None and one.status == "False"
    ]


def _resume(change: _Change) -> list[JobEvent]:
    """From where a run goes on; a warning where the losses will not be those of an undisturbed one."""
    found = change.turned(c.RESUME_INEXACT)
    if found is None:
        return []
    if found.status == "True":
        return [JobEvent(reason=c.RESUME_INEXACT, message=found.message, type="Warning")]
    return [JobEvent(reason="Resumed", message=found.message)]


def _end(change: _Change) -> list[JobEvent]:
    if change.old.phase in _ENDED:
        return []
    if change.new.phase == "Succeeded":
        found = c.find_condition(change.new.conditions, c.SUCCEEDED)
        model = change.new.result.model if change.new.result else None
        where = f" The model is in {model}." if model else ""
        return [JobEvent(reason="Succeeded", message=f"{found.message if found else ''}{where}".strip())]
    if change.new.phase == "Failed":
        found = c.find_condition(change.new.conditions, c.FAILED)
        reason = found.reason if found else "Failed"
        return [
            JobEvent(reason="Failed", message=f"{reason}: {found.message if found else ''}", type="Warning")
        ]
    return []


def _cleaning(change: _Change) -> list[JobEvent]:
    before = c.find_condition(change.old.conditions, c.RUNNING)
    after = c.find_condition(change.new.conditions, c.RUNNING)
    if change.old.phase not in _ENDED or after is None or before is None or before.message == after.message:
        return []
    return [JobEvent(reason="CleanedUp", message=after.message)]
