"""One round as the coordinator follows it: who has joined, how it ends, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

from .identity import Identity
from .messages import SUCCESS, YIELDED, Order, RankFailure, Report
from .timing import CAUSE_GRACE_SECONDS, NAME_CAUSE_SECONDS

FAILED = "failed"
LOST = "lost"
INTERRUPTED = "interrupted"


@dataclass
class LiveRound:
    """A round from its order to its conclusion.

    `members`: who was ordered, by worker. `succeeded`: workers that have reported success of it; they are
    done with it, whatever becomes of their launchers. `ended`: workers of which it is known that no rank of
    it runs or ever will. `ending_since`: awake time at which it became known to end, None while it may still
    succeed.
    `joined`: workers that have taken the order. `asked`: all ranks are asked to save and end; the round may
    still succeed, where they had finished. `yielded`: ranks of a worker ended with 0 after they were asked.
    `finished`: rank 0 has left its final metrics.
    `finishing_since`: awake time at which the first rank was known to have succeeded. `unfinished`: by
    worker, ranks that still run although others of that worker have succeeded.
    """

    order: Order
    members: dict[int, Identity]
    succeeded: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)
    failures: list[RankFailure] = field(default_factory=list)
    ending_since: Optional[float] = None
    lost: bool = False
    interrupted: bool = False
    joined: set[int] = field(default_factory=set)
    asked: bool = False
    yielded: bool = False
    finished: bool = False
    finishing_since: Optional[float] = None
    unfinished: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """The round's number."""
        return self.order.round.number

    @property
    def ending(self) -> bool:
        """Whether it can no longer succeed."""
        return self.ending_since is not None

    def end(self, kind: str, awake: float) -> bool:
        """It cannot succeed any more, for a reason of `kind`; True where that is news."""
        self.lost = self.lost or kind == LOST
        self.interrupted = self.interrupted or kind == INTERRUPTED
        if self.ending:
            return False
        self.ending_since = awake
        return True

    def ask(self, awake: float, *, begun: bool) -> bool:
        """A worker is to end: all ranks are asked to save; True where that is news. Where they have nothing
        to save, such as those that wait for one that was never started, the round ends."""
        self.interrupted = True
        if self.ending or self.asked:
            return False
        if not begun or len(self.joined) < len(self.members):
            return self.end(INTERRUPTED, awake)
        self.asked = True
        return True

    def take_outcome(self, report: Report) -> None:
        """How it ended in a worker. An exit 0 after a stop request is a success where rank 0 had finished."""
        if report.outcome in (SUCCESS, YIELDED):
            self.succeeded.add(report.worker)
            self.yielded = self.yielded or report.outcome == YIELDED
        self.finished = self.finished or report.finished
        if report.outcome is not None:
            self.ended.add(report.worker)

    @property
    def has_succeeded(self) -> bool:
        """Whether all workers have, and it was not cut short."""
        whole = not self.yielded or self.finished
        return not self.ending and len(self.succeeded) == len(self.members) and whole

    def add_failures(self, failures: tuple[RankFailure, ...]) -> None:
        """What a worker's report tells of ranks that ended badly; told again and again, noted once."""
        for failure in failures:
            if failure not in self.failures:
                self.failures.append(failure)

    def finishes(self, report: Report, awake: float) -> None:
        """What a worker's report tells of ranks that have succeeded already."""
        if report.unfinished is None and report.worker not in self.succeeded:
            return
        self.unfinished[report.worker] = report.unfinished or ()
        if self.finishing_since is None:
            self.finishing_since = awake

    def stragglers(self) -> list[int]:
        """Ranks that still run although others have succeeded; empty before the first has."""
        if self.finishing_since is None or self.ending:
            return []
        each = self.order.ranks_per_worker
        found: list[int] = []
        for worker in sorted(self.members):
            if worker not in self.succeeded:
                told = self.unfinished.get(worker)
                found += range(worker * each, (worker + 1) * each) if told is None else told
        return found

    def concluded(self, awake: float) -> bool:
        """Whether its cause may be named: all members have told of its end, or time is up.

        While all that is known are closed connections the cause is still to come: from a member that has not
        told yet, or by its silence (it died whole, which is not this round's failure). Ranks that save end by
        themselves, or at a deadline.
        """
        if len(self.ended) == len(self.members):
            return not self.has_succeeded
        if self.ending_since is None or self.asked:
            return False
        return self._explained() and awake - self.ending_since >= NAME_CAUSE_SECONDS

    def patient(self, awake: float) -> bool:
        """Whether its ranks are left alone for the moment, so that the cause can be told."""
        if self.ending_since is None:
            return True
        return not self._explained() and awake - self.ending_since < CAUSE_GRACE_SECONDS

    def _explained(self) -> bool:
        """Whether more is known than closed connections."""
        cause = self.cause()
        return self.lost or self.interrupted or (cause is not None and not cause.consequence)

    def kind(self) -> str:
        """How it ended. A stop request or a lost member explains any failure beside it, so none is
        counted."""
        if self.interrupted or self.yielded:
            return INTERRUPTED
        if self.lost or not self.failures:
            return LOST
        return FAILED

    def cause(self) -> Optional[RankFailure]:
        """The first failure by time that is not a closed connection; the first of all where all are."""
        return min(self.failures, key=lambda failure: (failure.consequence, failure.time), default=None)
