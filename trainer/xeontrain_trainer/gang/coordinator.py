"""The coordinator: worker 0's other half. It hears all members, opens rounds, names failures, finds the
verdict.

Rules that everything rests on:
- A round opens only when all N members report to this very coordinator that no rank of theirs is alive, and
  that they will never start a round as high as any that is known (`fence`).
- Success is the success of all N in one round. A verdict never changes; with one, no round ever opens.
- A member that is to leave has the ranks of all workers asked to save. What ends with 0 after that has
  succeeded only where rank 0 had finished.
- A member's silence counts only while the coordinator itself was awake.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Optional, Union

from ..contract import USER_ERROR_EXITS
from . import live_round as ends
from . import messages as m
from . import verdict as v
from .identity import Identity, RoundId, started_later
from .live_round import LiveRound
from .messages import Answer, Order, RankFailure, Report
from .seats import AwakeClock, Seat, Seats
from .timing import Timing
from .verdict import Decision

MAX_FAILURES_LISTED = 32
RETRY_PREPARE_SECONDS = 1.0


@dataclass(frozen=True)
class PrepareRound:
    """All are ready. Find the round's number (above `above` and above what storage knows), write it to
    storage and to the emptyDir, find a free port, and call `round_prepared` (or `prepare_failed`)."""

    above: int


@dataclass(frozen=True)
class RoundOpened:
    """For the log: the order is being given."""

    order: Order
    workers: int


@dataclass(frozen=True)
class RoundEnded:
    """For the log: how a round ended. `failure` is set where it was counted."""

    number: int
    kind: str
    failure: Optional[FailureRecord]


@dataclass(frozen=True)
class Publish:
    """The job has its verdict: write it down, then call `published` with the document that stands."""

    decision: Decision


CoordinatorEffect = Union[PrepareRound, RoundOpened, RoundEnded, Publish]


@dataclass(frozen=True)
class FailureRecord:
    """A failure that was counted. `id`: `<worker 0's pod UID>/<round>`. `reason`: UserError or RankFailed."""

    id: str
    round: int
    reason: str
    cause: RankFailure


@dataclass(frozen=True)
class Stragglers:
    """Ranks that still run although others of the round have succeeded. `ranks`: the first of them.
    `seconds`: since the first success."""

    ranks: tuple[int, ...]
    count: int
    seconds: float


class Coordinator:
    """The gang's one place of decision.

    Whoever drives it calls `tick` at least once a second, `receive` for each report, then performs
    `take_effects()`, and sends `answer(report)`; an answer that is not `urgent` may be held until `revision`
    changes, at most a period.
    `ranks_per_worker`: None for Auto. `agree_ranks`: ranks a worker, from what the members report.
    `has_begun`: whether the ranks of the round have anything to save yet.
    `highest`: of worker 0's emptyDir and storage. `verdict`: from the marker.
    """

    def __init__(
        self,
        *,
        job_uid: str,
        identity: Identity,
        workers: int,
        timing: Timing,
        agree_ranks: Callable[[list[int]], int],
        master_addr: str,
        backoff_limit: int,
        has_begun: Callable[[], bool] = lambda: True,
        failures_counted: int = 0,
        highest: int = 0,
        verdict: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self.identity = identity
        self.workers = workers
        self.verdict = verdict
        self.round: Optional[LiveRound] = None
        self.failures: deque[FailureRecord] = deque(maxlen=MAX_FAILURES_LISTED)
        self.failures_counted = failures_counted
        self.highest = highest
        self.revision = 0
        self.seats = Seats(workers)
        self._decision: Optional[Decision] = None
        self._job_uid = job_uid
        self._timing = timing
        self._agree_ranks = agree_ranks
        self._master_addr = master_addr
        self._backoff_limit = backoff_limit
        self._has_begun = has_begun
        self._clock = AwakeClock()
        self._patient = False
        self._preparing = False
        self._prepare_after = 0.0
        self._rival_until = -1.0
        self._effects: list[CoordinatorEffect] = []

    def take_effects(self) -> list[CoordinatorEffect]:
        """What is to be done, in order; each is handed out once."""
        effects, self._effects = self._effects, []
        return effects

    @property
    def superseded(self) -> bool:
        """A later-started coordinator is about: this one gives no orders while that is so."""
        return self._clock.seconds < self._rival_until

    @property
    def fence(self) -> int:
        """The highest round that is over for everybody."""
        if self.round is not None and not self.round.ending:
            return self.round.number - 1
        return self.highest

    @property
    def busy(self) -> bool:
        """Whether a round is not over yet, or a verdict not published."""
        return self.round is not None or (self._decision is not None and self.verdict is None)

    def seen_seconds_ago(self, seat: Seat) -> float:
        """Seconds since the seat's last report, as far as the coordinator was awake."""
        return self._clock.seconds - seat.seen

    def state_seconds(self, seat: Seat) -> float:
        """Seconds since the seat's launcher is in its state, as far as the coordinator was awake."""
        return self._clock.seconds - seat.since

    def stragglers(self) -> Optional[Stragglers]:
        """The ranks that all others wait for; None while nobody does."""
        live = self.round
        ranks = live.stragglers() if live is not None else []
        if live is None or live.finishing_since is None or not ranks:
            return None
        return Stragglers(
            ranks=tuple(ranks[: m.MAX_UNFINISHED]),
            count=len(ranks),
            seconds=self._clock.seconds - live.finishing_since,
        )

    def all_have_heard(self) -> bool:
        """Whether every member that still reports has told the verdict back."""
        return self.seats.complete() and all(seat.report.verdict is not None for seat in self.seats)

    # What happens to it.

    def tick(self, now: float) -> None:
        """Time has passed."""
        awake = self._clock.look(now)
        for seat in self.seats.fall_silent(awake, self._timing.silent):
            self.revision += 1
            self._lose(seat.report.worker)
        self._advance()

    def receive(self, report: Report, now: float) -> None:
        """A report has come, maybe late, maybe twice."""
        awake = self._clock.look(now)
        if report.job_uid != self._job_uid or report.worker >= self.workers:
            return
        self._look_for_rival(report)
        before = self.seats.holder(report.worker)
        if not self._may_claim(report) or not self.seats.take(report, awake):
            return
        if before is not None and before != report.identity:
            self.revision += 1
            self._lose(report.worker)
        self._raise_highest(report.highest)
        self._hear_verdict(report)
        self._follow_round(report)
        self._advance()

    def round_prepared(self, number: int, *, master_port: int, now: float) -> None:
        """The number is written down and the port was free. Opens the round, if all are still ready for
        it."""
        self._clock.look(now)
        self._preparing = False
        if number > self.highest and self._ready():
            self._open(number, master_port)
        else:
            self._raise_highest(number)
        self._advance()

    def prepare_failed(self, now: float) -> None:
        """The number could not be written, or no port was free: try again soon."""
        self._preparing = False
        self._prepare_after = self._clock.look(now) + RETRY_PREPARE_SECONDS

    def published(self, document: Mapping[str, Any]) -> None:
        """The verdict is on disk; from now on every answer is `done`."""
        if self.verdict is None:
            self.verdict = document
            self.revision += 1

    def withdraw(self) -> None:
        """The verdict was not published, because storage shows a newer coordinator's round: stand back."""
        self._decision = None
        self._rival_until = self._clock.seconds + self._timing.silent
        self.revision += 1

    # Answers.

    def answer(self, report: Report) -> Answer:
        """What to say to this report as things stand."""
        kind, order, round_id = self._judge(report)
        return Answer(
            kind=kind,
            job_uid=self._job_uid,
            coordinator=self.identity,
            to=report.identity,
            sequence=report.sequence,
            fence=self.fence,
            order=order,
            round=round_id,
            verdict=self.verdict if kind == m.DONE else None,
        )

    def urgent(self, answer: Answer, report: Report) -> bool:
        """Whether the answer tells the member something to do; otherwise it may be held."""
        if answer.kind != m.WAIT or answer.fence > report.highest:
            return True
        seat = self.seats.get(report.worker)
        return seat is None or seat.report.sequence != report.sequence

    def _judge(self, report: Report) -> tuple[str, Optional[Order], Optional[RoundId]]:
        if self.verdict is not None:
            return m.DONE, None, None
        if self.superseded:
            return m.ELSEWHERE, None, None
        if self.seats.holder(report.worker) != report.identity:
            return m.SUPERSEDED, None, None
        live = self.round
        if live is not None and not live.ending and live.members[report.worker] == report.identity:
            return self._judge_in_round(live, report)
        if report.alive and report.asked:
            # Its ranks save and have a deadline of their own: of this round, or of an earlier coordinator's.
            return m.WAIT, None, None
        if live is not None and live.asked and report.alive and report.round == live.order.round:
            return m.SAVE, None, report.round
        if report.alive and report.round is not None and not self._lets_run(report.round):
            return m.STOP, None, report.round
        return m.WAIT, None, None

    def _judge_in_round(
        self, live: LiveRound, report: Report
    ) -> tuple[str, Optional[Order], Optional[RoundId]]:
        if report.worker in live.succeeded:
            return m.WAIT, None, None
        if report.round != live.order.round:
            return m.RUN, live.order, None
        if live.asked and report.alive and not report.asked:
            return m.SAVE, None, report.round
        return m.WAIT, None, None

    def _lets_run(self, round_id: RoundId) -> bool:
        live = self.round
        return live is not None and live.order.round == round_id and live.patient(self._clock.seconds)

    # Who counts.

    def _raise_highest(self, number: int) -> None:
        if number > self.highest:
            self.highest = number
            self.revision += 1

    def _look_for_rival(self, report: Report) -> None:
        """Two launchers of worker 0 may be alive: the later started coordinates, for as long as it is
        heard."""
        rival = report.coordinator
        if report.worker == 0 and report.identity != self.identity:
            rival = report.identity
        if rival is None or rival == self.identity or not started_later(rival, self.identity):
            return
        if not self.superseded:
            self.revision += 1
        self._rival_until = self._clock.seconds + self._timing.silent
        self._end_round(ends.LOST)

    def _may_claim(self, report: Report) -> bool:
        return report.worker != 0 or report.identity == self.identity

    def _lose(self, worker: int) -> None:
        """The launcher that was ordered is silent or replaced. One that has succeeded is not needed any
        more."""
        live = self.round
        if live is not None and worker not in live.succeeded:
            live.ended.add(worker)
            self._end_round(ends.LOST)

    # The round.

    def _follow_round(self, report: Report) -> None:
        live = self.round
        if live is None or live.members[report.worker] != report.identity or report.worker in live.succeeded:
            return
        if report.round == live.order.round:
            live.joined.add(report.worker)
            self._follow_member(live, report)
        elif report.highest >= live.number:
            # It will never start this round: it was told of its end first, or a rival gave it a later one.
            live.ended.add(report.worker)
            self._end_round(ends.LOST)
        if report.leaving and report.worker not in live.succeeded:
            self._ask_to_save(live)

    def _ask_to_save(self, live: LiveRound) -> None:
        if live.ask(self._clock.seconds, begun=self._has_begun()):
            self.revision += 1

    def _follow_member(self, live: LiveRound, report: Report) -> None:
        live.add_failures(report.failures)
        if report.failures:
            self._end_round(ends.FAILED)
        live.take_outcome(report)
        live.finishes(report, self._clock.seconds)
        if report.outcome == m.STOPPED and not live.ending:
            self._end_round(ends.LOST)

    def _end_round(self, kind: str) -> None:
        if self.round is not None and self.round.end(kind, self._clock.seconds):
            self.revision += 1

    def _advance(self) -> None:
        """Draws the conclusions that are due."""
        live = self.round
        patient = live is not None and live.patient(self._clock.seconds)
        if patient != self._patient:
            self._patient = patient
            self.revision += 1
        if live is not None and live.has_succeeded:
            self._decide(Decision(outcome=v.SUCCEEDED, round=live.number, failures=self.failures_counted))
        elif live is not None and live.concluded(self._clock.seconds):
            self._conclude(live)
        elif live is None and self._may_prepare():
            self._preparing = True
            self._effects.append(PrepareRound(above=self.highest))

    def _conclude(self, live: LiveRound) -> None:
        """Names the cause and counts it; a round has at most one failure."""
        self.round = None
        self.revision += 1
        record = self._count(live) if live.kind() == ends.FAILED else None
        self._effects.append(RoundEnded(number=live.number, kind=live.kind(), failure=record))
        if record is None:
            return
        if record.reason == v.USER_ERROR:
            self._decide_failed(record, v.USER_ERROR)
        elif self.failures_counted > self._backoff_limit:
            self._decide_failed(record, v.BACKOFF_LIMIT_EXCEEDED)

    def _count(self, live: LiveRound) -> Optional[FailureRecord]:
        cause = live.cause()
        if cause is None:
            return None
        self.failures_counted += 1
        user_error = cause.exit_code in USER_ERROR_EXITS
        record = FailureRecord(
            id=f"{self.identity.pod_uid}/{live.number}",
            round=live.number,
            reason=v.USER_ERROR if user_error else v.RANK_FAILED,
            cause=cause,
        )
        self.failures.append(record)
        return record

    def _may_prepare(self) -> bool:
        return not self._preparing and self._clock.seconds >= self._prepare_after and self._ready()

    def _ready(self) -> bool:
        """Whether a round may open: all N have told this coordinator that nothing of theirs runs or will."""
        if (
            self.round is not None
            or self._decision is not None
            or self.verdict is not None
            or self.superseded
        ):
            return False
        if not self.seats.complete():
            return False
        return all(self._is_able(seat.report) for seat in self.seats)

    def _is_able(self, report: Report) -> bool:
        if report.state != m.WAITING or report.alive or report.leaving or report.refusal is not None:
            return False
        return report.highest >= self.highest

    def _open(self, number: int, master_port: int) -> None:
        ranks = self._agree_ranks([seat.report.ranks for seat in self.seats])
        order = Order(
            round=RoundId(number=number, coordinator=self.identity),
            ranks_per_worker=ranks,
            master_addr=self._master_addr,
            master_port=master_port,
        )
        members = {seat.report.worker: seat.identity for seat in self.seats}
        self.round = LiveRound(order=order, members=members)
        self.highest = number
        self.revision += 1
        self._effects.append(RoundOpened(order=order, workers=self.workers))

    # The verdict.

    def _hear_verdict(self, report: Report) -> None:
        if self._decision is not None or self.verdict is not None:
            return
        if report.verdict is not None:
            self.adopt(report.verdict)
        elif report.refusal is not None:
            failure = {
                "worker": report.worker,
                "rank": None,
                "exitCode": None,
                "signal": None,
                "reason": report.refusal.reason,
                "detail": report.refusal.detail,
                "message": report.refusal.message,
            }
            self._decide(
                Decision(
                    outcome=v.FAILED, round=self.highest, failures=self.failures_counted, failure=failure
                )
            )

    def adopt(self, document: Mapping[str, Any]) -> None:
        """A verdict that another has published, or that stands in storage: take it over and publish it
        here."""
        self._decide(
            Decision(
                outcome=document["outcome"],
                round=document["round"],
                failures=document["failures"],
                failure=document.get("failure"),
                document=document,
            )
        )

    def _decide_failed(self, record: FailureRecord, reason: str) -> None:
        cause = record.cause
        failure = {
            "worker": cause.worker,
            "rank": cause.rank,
            "exitCode": cause.exit_code,
            "signal": cause.signal,
            "reason": reason,
            "message": cause.message,
        }
        self._decide(
            Decision(outcome=v.FAILED, round=record.round, failures=self.failures_counted, failure=failure)
        )

    def _decide(self, decision: Decision) -> None:
        """The first decision stands."""
        if self._decision is None and self.verdict is None:
            self._decision = decision
            self.round = None
            self.revision += 1
            self._effects.append(Publish(decision))
