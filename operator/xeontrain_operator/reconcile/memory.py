"""What the loop keeps of a job between two reconciles: lost at a restart, and soon learned again."""

from __future__ import annotations

from dataclasses import dataclass, field

from xeontrain_operator.reconcile.observed import ApplyError, Document, LauncherReport, Rival, WorkerAnswer


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A child that the API server has refused, and until when it is not tried again."""

    error: ApplyError
    generation: int
    until: float
    """Clock seconds; a quota may have been raised by then."""
    attempts: int


@dataclass(kw_only=True)
class JobMemory:
    """Of one job UID."""

    uid: str
    refusals: dict[tuple[str, str, str], Refusal] = field(default_factory=dict)
    """By kind, name and verb."""
    strangers: set[tuple[str, str]] = field(default_factory=set)
    """(kind, name) of objects that bear a child's name without our labels: read anew each time."""
    launcher: LauncherReport | None = None
    launcher_error: str | None = None
    ask_launcher: bool = False
    asked_at: float | None = None
    """Clock seconds of the last question to worker 0."""
    ask_workers: tuple[int, ...] = ()
    answers: dict[int, WorkerAnswer] = field(default_factory=dict)
    claims: tuple[Document, ...] = ()
    events: tuple[Document, ...] = ()
    events_at: float | None = None
    lost_nodes: frozenset[str] = frozenset()
    rivals: tuple[Rival, ...] | None = None

    def apply_errors(self, *, generation: int, now: float) -> tuple[ApplyError, ...]:
        """Refusals that still hold: of this generation of the job, and not yet due for another attempt."""
        return tuple(
            refusal.error
            for refusal in self.refusals.values()
            if refusal.generation == generation and now < refusal.until
        )

    def next_attempt_seconds(self, *, now: float) -> float | None:
        """Until the first refused child is to be tried again; None if none is waiting."""
        waits = [refusal.until - now for refusal in self.refusals.values() if refusal.until > now]
        return min(waits, default=None)
