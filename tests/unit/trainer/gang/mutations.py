"""Faults put into the gang on purpose, one rule each. The simulation is worth what it finds of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xeontrain_trainer.gang import messages as m
from xeontrain_trainer.gang.coordinator import Coordinator
from xeontrain_trainer.gang.live_round import LiveRound
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
            self._obey(answer)

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
        self._obey(answer)

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
    Mutation(obey_orders_for_others, 0, "no end"),
    Mutation(forget_the_highest, 0, "starts 1 after 1"),
    Mutation(open_over_live_ranks, 17, "are live at once"),
    Mutation(open_without_fence, 458, "are live at once"),
    Mutation(count_success_of_any_round, 76, "lacks a worker"),
    Mutation(stop_is_success, 291, "no end|lacks a worker"),
    Mutation(open_after_verdict, 1, "a round opens after the verdict"),
    Mutation(deaf_to_members_verdicts, 59, "no end"),
    Mutation(first_started_counts, 10, "no end"),
    Mutation(never_forget_a_rival, 0, "no end"),
    Mutation(replaced_member_is_ignored, 2, "no end"),
)
