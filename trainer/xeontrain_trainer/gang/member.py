"""The member: one worker's side of the gang. It reports, obeys, and never decides.

Rules that everything rests on:
- It obeys only an order for a round above the highest that it knows, or for the very round it is in,
  addressed to this very start of this launcher. Rounds of one launcher therefore only ever grow, and a late
  order starts nothing.
- Ranks of an earlier round are gone before ranks of a later one start.
- It never gives up on a silent worker 0: its ranks run on, and it goes on reporting.
- Ranks that are to save are asked by the gang's word, in all workers or in none, and have until a deadline.
- A verdict, once known, is kept and told to whoever asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional, Union

from . import messages as m
from .identity import Identity, RoundId, started_later
from .messages import Answer, Order, RankFailure, Refusal, Report
from .timing import CAUSE_GRACE_SECONDS, RANK_STOP_SECONDS, Timing

MAX_RIVALS = 8


@dataclass(frozen=True)
class StartRanks:
    """Start the ranks of this round; no rank of another one is alive. `RememberRound` has come before."""

    order: Order


@dataclass(frozen=True)
class StopRanks:
    """End the ranks of this round: SIGTERM, and SIGKILL after `grace_seconds`; 0: SIGKILL at once."""

    round: RoundId
    grace_seconds: float = RANK_STOP_SECONDS


@dataclass(frozen=True)
class AskRanks:
    """Ask the ranks of this round to save and end. `alone`: without the gang's word, so that ranks of other
    workers are not asked; raise the flag only, on which ranks agree among themselves."""

    round: RoundId
    alone: bool = False


@dataclass(frozen=True)
class RememberRound:
    """Keep the number in the emptyDir before anything else is done."""

    number: int


@dataclass(frozen=True)
class KeepVerdict:
    """The verdict has been heard; no rank is alive. Keep it in the marker and park."""

    document: Mapping[str, Any]


MemberEffect = Union[StartRanks, StopRanks, AskRanks, RememberRound, KeepVerdict]


class Member:
    """One launcher as the gang sees it.

    Whoever drives it calls `tick` (at `stop_at`), `receive` and the `ranks_...` methods as things happen,
    then performs `take_effects()` in their order, and sends `make_report` whenever `report_due` says so.
    `highest`: the highest round in the emptyDir. `verdict`: from the marker. `park_only`: never join a round.
    `save_seconds`: how long ranks that are asked to save have before they are killed.
    """

    def __init__(
        self,
        *,
        job_uid: str,
        worker: int,
        identity: Identity,
        timing: Timing,
        ranks: int = 1,
        highest: int = 0,
        verdict: Optional[Mapping[str, Any]] = None,
        park_only: bool = False,
        save_seconds: float = RANK_STOP_SECONDS,
    ) -> None:
        self.identity = identity
        self.round: Optional[RoundId] = None
        self.order: Optional[Order] = None
        self.verdict = verdict
        self.superseded = False
        self.leaving = False
        self.alive = False
        self.highest = highest
        self.cpu: Optional[Mapping[str, Any]] = None
        self._job_uid = job_uid
        self._worker = worker
        self._timing = timing
        self._ranks = ranks
        self._park_only = park_only
        self._save_seconds = save_seconds
        self._refusal: Optional[Refusal] = None
        self._running = False
        self._stopping = False
        self._asked = self._asked_alone = self._finished = False
        self._outcome: Optional[str] = None
        self._failures: tuple[RankFailure, ...] = ()
        self._succeeded: set[int] = set()
        self._heard: dict[Identity, float] = {}
        self._sequence = 0
        self._answered = 0
        self._due_at = 0.0
        self._stop_at: Optional[float] = None
        self._kill_at: Optional[float] = None
        self._changed = True
        self._effects: list[MemberEffect] = []

    @property
    def state(self) -> str:
        """The contract's `state`."""
        if self._stopping or (self.alive and (self._asked or self._asked_alone)):
            return m.STOPPING
        if self.alive:
            return m.RUNNING if self._running else m.STARTING
        if self.verdict is not None or self.superseded or self._park_only:
            return m.PARKED
        return m.WAITING

    @property
    def changed(self) -> bool:
        """Something that the coordinator does not know yet has happened: report at once."""
        return self._changed

    def take_effects(self) -> list[MemberEffect]:
        """What is to be done, in order; each is handed out once."""
        effects, self._effects = self._effects, []
        return effects

    # Reports.

    def report_due(self, now: float) -> bool:
        """Whether a report is to be sent now."""
        return self._changed or now >= self._due_at

    def next_report_at(self) -> float:
        """When the next report is due if nothing changes."""
        return self._due_at

    def stop_at(self) -> float:
        """When `tick` will end the ranks; infinity while nothing is planned."""
        planned = (at for at in (self._stop_at, self._kill_at) if at is not None)
        return min(planned, default=float("inf"))

    def make_report(self, now: float) -> Report:
        """The report to send now; the next one is due a period later."""
        self._sequence += 1
        self._changed = False
        self._due_at = now + self._timing.period
        return Report(
            job_uid=self._job_uid,
            worker=self._worker,
            identity=self.identity,
            sequence=self._sequence,
            state=self.state,
            ranks=self._ranks,
            highest=self.highest,
            round=self.round,
            alive=self.alive,
            outcome=self._outcome,
            failures=self._failures,
            leaving=self.leaving,
            asked=self._asked,
            finished=self._finished,
            refusal=self._refusal,
            coordinator=self.best_coordinator(now),
            cpu=self.cpu,
            verdict=self.verdict,
            unfinished=self._unfinished(),
        )

    def _unfinished(self) -> Optional[tuple[int, ...]]:
        if self.order is None or not self._succeeded or not self.alive:
            return None
        first = self._worker * self.order.ranks_per_worker
        ranks = range(first, first + self.order.ranks_per_worker)
        return tuple(rank for rank in ranks if rank not in self._succeeded)[: m.MAX_UNFINISHED]

    def best_coordinator(self, now: float) -> Optional[Identity]:
        """The latest-started coordinator that has been heard lately; one that is silent no longer counts."""
        best: Optional[Identity] = None
        for identity, heard_at in list(self._heard.items()):
            if now - heard_at > self._timing.silent:
                del self._heard[identity]
            elif best is None or started_later(identity, best):
                best = identity
        return best

    def heard_lately(self, now: float) -> bool:
        """Whether a coordinator has answered within the time after which it would count as silent."""
        return self.best_coordinator(now) is not None

    # What happens to it.

    def receive(self, answer: Answer, now: float) -> None:
        """An answer has come, maybe late, maybe twice, maybe one that is meant for another."""
        if answer.job_uid != self._job_uid or answer.to != self.identity or answer.sequence < self._answered:
            return
        best = self.best_coordinator(now)
        if best is not None and best != answer.coordinator and started_later(best, answer.coordinator):
            self._receive_from_outranked(answer)
            return
        self._answered = answer.sequence
        if answer.kind != m.ELSEWHERE:
            self._hear(answer.coordinator, now)
        self._raise_highest(answer.fence)
        self._obey(answer, now)

    def _receive_from_outranked(self, answer: Answer) -> None:
        """An older coordinator may still tell a verdict, unless this worker has obeyed a later round
        since."""
        if answer.kind == m.DONE and answer.verdict is not None:
            number = self.round.number if self.round else 0
            if answer.verdict["round"] >= number:
                self.adopt(answer.verdict)

    def _hear(self, coordinator: Identity, now: float) -> None:
        self._heard[coordinator] = now
        if len(self._heard) > MAX_RIVALS:
            del self._heard[min(self._heard, key=lambda identity: self._heard[identity])]

    def _obey(self, answer: Answer, now: float) -> None:
        if self.verdict is not None:
            return
        away = answer.kind == m.SUPERSEDED or (answer.kind == m.ELSEWHERE and self._worker == 0)
        if away != self.superseded and (away or answer.kind != m.ELSEWHERE):
            self.superseded = away
            self._changed = True
        if away:
            self._stop()
        elif answer.kind == m.DONE and answer.verdict is not None:
            self.adopt(answer.verdict)
        elif answer.kind == m.STOP and answer.round == self.round:
            self._stop()
        elif answer.kind == m.SAVE and answer.round == self.round:
            self._ask(now)
        elif answer.kind == m.RUN and answer.order is not None:
            self._take_order(answer.order)

    def _take_order(self, order: Order) -> None:
        """Start the round, if it is a later one. With ranks of another round alive (which its coordinator did
        not know, so there are two) those end, and the coordinator sees that this order cannot be obeyed any
        more."""
        if order.round.number <= self.highest or self.leaving or self._park_only or self._refusal:
            return
        self._raise_highest(order.round.number)
        if self.alive:
            self._stop()
        else:
            self._start(order)

    def _start(self, order: Order) -> None:
        self.order = order
        self.round = order.round
        self.alive = True
        self._running = self._stopping = False
        self._asked = self._asked_alone = self._finished = False
        self._outcome = None
        self._failures = ()
        self._succeeded = set()
        self._changed = True
        self._effects.append(StartRanks(order))

    def _stop(self, *, grace_seconds: float = RANK_STOP_SECONDS) -> None:
        if self.alive and not self._stopping and self.round is not None:
            self._stopping = True
            self._stop_at = self._kill_at = None
            self._changed = True
            self._effects.append(StopRanks(self.round, grace_seconds))

    def _ask(self, now: float) -> None:
        """The gang's word: the ranks of all workers save and end, and have until the deadline for it."""
        if self.alive and not self._stopping and not self._asked and self.round is not None:
            self._asked = True
            self._changed = True
            self._plan_kill(now)
            self._effects.append(AskRanks(self.round))

    def _plan_kill(self, now: float) -> None:
        if self.alive and not self._stopping and self._kill_at is None:
            self._kill_at = now + self._save_seconds

    def _raise_highest(self, number: int) -> None:
        if number > self.highest:
            self.highest = number
            self._changed = True
            self._effects.append(RememberRound(number))

    def tick(self, now: float) -> None:
        """Time has passed."""
        if self._kill_at is not None and now >= self._kill_at:
            self._stop(grace_seconds=0.0)
        elif now >= self.stop_at():
            self._stop()

    def ranks_started(self, round_id: RoundId) -> None:
        """All ranks of this worker have been started."""
        if self.alive and round_id == self.round and not self._running:
            self._running = True
            self._changed = True

    def rank_succeeded(self, round_id: RoundId, rank: int) -> None:
        """A rank has ended well by itself; the coordinator is told at once of the first."""
        if self.alive and round_id == self.round and not self._stopping:
            self._changed = self._changed or not self._succeeded
            self._succeeded.add(rank)

    def rank_failed(self, round_id: RoundId, failure: RankFailure, now: float) -> None:
        """A rank has ended badly by itself: the coordinator is told at once, and the others here are stopped;
        a little later where it is only a closed connection, because the one that closed it may be among
        them."""
        if not self.alive or round_id != self.round:
            return
        kept = (*self._failures, failure)
        if len(kept) > m.MAX_FAILURES_IN_REPORT:
            kept = _most_telling(kept)
        self._failures = kept
        self._changed = True
        if not failure.consequence:
            self._stop()
        elif self._stop_at is None and not self._stopping:
            self._stop_at = now + CAUSE_GRACE_SECONDS

    def ranks_ended(self, round_id: RoundId, *, clean: bool, finished: bool = False) -> None:
        """No rank of the round is alive here any more. `clean`: all have ended with exit code 0. `finished`:
        rank 0 has left its final metrics."""
        if not self.alive or round_id != self.round:
            return
        self._outcome = self._judge_end(clean=clean)
        self._finished = finished
        self.alive = self._running = self._stopping = False
        self._stop_at = self._kill_at = None
        self._changed = True
        if self.verdict is not None:
            self._effects.append(KeepVerdict(self.verdict))

    def _judge_end(self, *, clean: bool) -> str:
        if self._failures:
            return m.FAILED
        if self._stopping or not clean:
            return m.STOPPED
        return m.YIELDED if self._asked or self._asked_alone else m.SUCCESS

    def request_stop(self, now: float) -> None:
        """SIGTERM: tell the gang, whose word asks the ranks of all workers to save. Without it those here end
        at the deadline all the same."""
        if not self.leaving:
            self.leaving = True
            self._changed = True
            self._plan_kill(now)

    def ask_alone(self) -> None:
        """The gang's word has not come: raise the flag for the ranks here."""
        if self.alive and self.round is not None and not (self._stopping or self._asked or self._asked_alone):
            self._asked_alone = True
            self._changed = True
            self._effects.append(AskRanks(self.round, alone=True))

    def refuse(self, refusal: Refusal) -> None:
        """This worker can never run a round: the job ends."""
        if self._refusal != refusal:
            self._refusal = refusal
            self._changed = True
        self._stop()

    def adopt(self, document: Mapping[str, Any]) -> None:
        """A verdict has been heard. The first one stands."""
        if self.verdict is not None:
            return
        self.verdict = document
        self._changed = True
        if self.alive:
            self._stop()
        else:
            self._effects.append(KeepVerdict(document))


def _most_telling(failures: tuple[RankFailure, ...]) -> tuple[RankFailure, ...]:
    """Causes before consequences, early ones before late ones."""
    ordered = sorted(failures, key=lambda failure: (failure.consequence, failure.time))
    return tuple(ordered[: m.MAX_FAILURES_IN_REPORT])
