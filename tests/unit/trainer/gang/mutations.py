"""Faults put into the gang on purpose, one rule each. The simulation is worth what it finds of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from xeontrain_trainer.gang import messages as m
from xeontrain_trainer.gang.coordinator import Coordinator
from xeontrain_trainer.gang.live_round import INTERRUPTED, LiveRound
from xeontrain_trainer.gang.member import Member
from xeontrain_trainer.gang.messages import Answer, Order, Report
from xeontrain_trainer.gang.seats import Seats

Patch = Callable[[Any], None]


def obey_late_orders(patch: Any) -> None:
    """A member starts whatever round it is told, however old the answer."""

    def receive(self: Member, answer: Answer, now: float) -> None:
        if answer.to == self.identity:
            self._hear(answer.coordinator, now)
            self._raise_highest(answer.fence)
            self._obey(answer, now)

    def take_order(self: Member, order: Order) -> None:
        if self.alive or self.leaving:
            return
        self._raise_highest(order.round.number)
        self._start(order)

    patch.setattr(Member, "_take_order", take_order)
    patch.setattr(Member, "receive", receive)


def obey_orders_for_others(patch: Any) -> None:
    """A member does not look whether an answer is meant for this start of its launcher, nor which is the
    newest."""

    def receive(self: Member, answer: Answer, now: float) -> None:
        self._hear(answer.coordinator, now)
        self._obey(answer, now)

    patch.setattr(Member, "receive", receive)


def forget_the_highest(patch: Any) -> None:
    """A member forgets the highest round when its container starts again."""
    original = Member.__init__

    def init(self: Member, **kwargs: Any) -> None:
        original(self, **{**kwargs, "highest": 0})

    def able(self: Coordinator, report: Report) -> bool:
        return report.state == m.WAITING and not report.alive and not report.leaving

    patch.setattr(Member, "__init__", init)
    patch.setattr(Coordinator, "_is_able", able)
    patch.setattr(Coordinator, "_raise_highest", lambda self, number: None)


def open_over_live_ranks(patch: Any) -> None:
    """The coordinator opens a round although ranks of an earlier one live somewhere."""

    def able(self: Coordinator, report: Report) -> bool:
        return report.state != m.PARKED and not report.leaving

    patch.setattr(Coordinator, "_is_able", able)


def open_without_fence(patch: Any) -> None:
    """The coordinator opens a round although a member may still start an earlier one on a late order."""

    def able(self: Coordinator, report: Report) -> bool:
        return report.state == m.WAITING and not report.alive and not report.leaving

    patch.setattr(Coordinator, "_is_able", able)
    patch.setattr(Coordinator, "fence", property(lambda self: 0))


def count_success_of_any_round(patch: Any) -> None:
    """The coordinator takes a success for one of the round that is open."""
    original = Coordinator._follow_round

    def follow(self: Coordinator, report: Report) -> None:
        if self.round is not None and report.outcome == m.SUCCESS:
            self.round.succeeded.add(report.worker)
        original(self, report)

    patch.setattr(Coordinator, "_follow_round", follow)


def stop_is_success(patch: Any) -> None:
    """Ranks that end with 0 because they were asked to stop count as finished."""
    original = Coordinator._follow_member

    def follow(self: Coordinator, live: LiveRound, report: Report) -> None:
        original(self, live, report)
        if report.outcome == m.STOPPED:
            live.succeeded.add(report.worker)

    patch.setattr(Coordinator, "_follow_member", follow)
    patch.setattr(LiveRound, "ending", property(lambda self: False))


def yielding_is_success(patch: Any) -> None:
    """Ranks that end with 0 after they were asked to save count as finished, whether or not rank 0 had."""
    original = LiveRound.take_outcome

    def take(self: LiveRound, report: Report) -> None:
        original(self, report)
        self.yielded = False

    patch.setattr(LiveRound, "take_outcome", take)


def no_patience_with_ranks_that_save(patch: Any) -> None:
    """The first worker whose ranks have saved ends those of the others."""
    original = Coordinator.answer

    def answer(self: Coordinator, report: Report) -> Answer:
        return original(self, replace(report, asked=False))

    def ask(self: LiveRound, awake: float, *, begun: bool) -> bool:
        self.interrupted = True
        return self.end(INTERRUPTED, awake) if self.asked else ask_first(self, awake, begun=begun)

    ask_first = LiveRound.ask
    patch.setattr(Coordinator, "answer", answer)
    patch.setattr(LiveRound, "ask", ask)


def never_ask(patch: Any) -> None:
    """A worker that leaves does not tell, and its ranks run on."""
    patch.setattr(Member, "_plan_kill", lambda self, now: None)
    patch.setattr(LiveRound, "ask", lambda self, awake, begun: False)


def open_after_verdict(patch: Any) -> None:
    """A coordinator with a verdict goes on opening rounds."""

    def ready(self: Coordinator) -> bool:
        return self.round is None and self.seats.complete()

    patch.setattr(Coordinator, "_ready", ready)


def deaf_to_members_verdicts(patch: Any) -> None:
    """A coordinator does not take over a verdict that a member knows."""
    patch.setattr(Coordinator, "_hear_verdict", lambda self, report: None)


def first_started_counts(patch: Any) -> None:
    """A pod that claims a place keeps it although it is silent."""
    patch.setattr(Seats, "fall_silent", lambda self, awake, silent_seconds: [])


def never_forget_a_rival(patch: Any) -> None:
    """A coordinator that has been silent for long still counts."""

    def best(self: Member, now: float) -> Any:
        return max(self._heard, key=lambda identity: identity.started_at, default=None)

    patch.setattr(Member, "best_coordinator", best)


def replaced_member_is_ignored(patch: Any) -> None:
    """A round goes on although a member of it was lost."""
    patch.setattr(Coordinator, "_lose", lambda self, worker: None)


@dataclass(frozen=True)
class Mutation:
    """A rule taken out. `history`: one that shows it, tried first. `shows`: what is seen."""

    rule: Patch
    history: int
    shows: str


MUTATIONS = (
    Mutation(obey_late_orders, 5, "starts 1 after 1"),
    Mutation(obey_orders_for_others, 1, "no end"),
    Mutation(forget_the_highest, 112, "starts 1 after 1"),
    Mutation(open_over_live_ranks, 6, "are live at once"),
    Mutation(open_without_fence, 463, "are live at once"),
    Mutation(count_success_of_any_round, 11, "no end|lacks a worker"),
    Mutation(stop_is_success, 25, "no end|lacks a worker"),
    Mutation(yielding_is_success, 190, "cut short"),
    Mutation(no_patience_with_ranks_that_save, 638, "stops ranks that save"),
    Mutation(never_ask, 218, "outlive the deadline"),
    Mutation(open_after_verdict, 5, "a round opens after the verdict"),
    Mutation(deaf_to_members_verdicts, 35, "no end"),
    Mutation(first_started_counts, 8, "no end"),
    Mutation(never_forget_a_rival, 29, "no end"),
    Mutation(replaced_member_is_ignored, 12, "no end"),
)
