"""What a member obeys, what it does not, and what it reports."""

from __future__ import annotations

from typing import Any

import pytest
from xeontrain_trainer.gang import messages as m
from xeontrain_trainer.gang.identity import Identity, RoundId
from xeontrain_trainer.gang.member import (
    AskRanks,
    KeepVerdict,
    Member,
    RememberRound,
    StartRanks,
    StopRanks,
)
from xeontrain_trainer.gang.messages import Answer, Order, RankFailure, Refusal
from xeontrain_trainer.gang.timing import Timing

ME = Identity("pod-1", 1, 100.0)
OLD = Identity("pod-0", 1, 50.0)
NEW = Identity("pod-9", 1, 60.0)
VERDICT = {"jobUid": "job", "round": 5, "outcome": "Succeeded"}


def make_member(**options: Any) -> Member:
    """A member of a small gang that knows round 3."""
    return Member(
        job_uid="job", worker=1, identity=ME, timing=Timing.for_workers(2), **{"highest": 3, **options}
    )


def say(
    kind: str, *, coordinator: Identity = OLD, to: Identity = ME, sequence: int = 1, **more: Any
) -> Answer:
    """An answer to this member."""
    return Answer(kind, more.pop("job_uid", "job"), coordinator, to, sequence, **more)


def run(number: int, *, coordinator: Identity = OLD, **more: Any) -> Answer:
    """An order for a round."""
    order = Order(RoundId(number, coordinator), 1, "10.0.0.1", 29500)
    return say(m.RUN, coordinator=coordinator, order=order, **more)


def failure(time: float, *, consequence: bool = False) -> RankFailure:
    """A rank's end."""
    return RankFailure(1, 1, 1, None, "boom", time, consequence)


def running_member() -> Member:
    """A member whose ranks of round 4 run."""
    member = make_member()
    member.receive(run(4), 0.0)
    member.ranks_started(RoundId(4, OLD))
    member.take_effects()
    return member


def test_an_order_above_the_highest_is_obeyed() -> None:
    """The number is remembered before any rank starts."""
    member = make_member()
    member.receive(run(4), 0.0)
    assert [type(effect) for effect in member.take_effects()] == [RememberRound, StartRanks]
    assert member.state == m.STARTING
    member.ranks_started(RoundId(4, OLD))
    assert member.state == m.RUNNING


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(run(3), id="not-above-the-highest"),
        pytest.param(run(4, to=Identity("pod-1", 2, 100.0)), id="for-another-start"),
        pytest.param(run(4, job_uid="other"), id="another-job"),
        pytest.param(say(m.STOP, round=RoundId(3, OLD)), id="stop-of-a-round-it-is-not-in"),
        pytest.param(say(m.WAIT), id="wait"),
        pytest.param(say(m.ELSEWHERE), id="elsewhere"),
    ],
)
def test_what_starts_and_stops_nothing(answer: Answer) -> None:
    """Late, foreign and misdirected answers have no effect."""
    member = make_member()
    member.receive(answer, 0.0)
    assert member.take_effects() == []
    assert member.state == m.WAITING


@pytest.mark.parametrize(
    "prepare",
    [
        pytest.param(lambda member: member.request_stop(0.0), id="leaving"),
        pytest.param(lambda member: member.refuse(Refusal("NotPinned", "no")), id="refusing"),
        pytest.param(lambda member: member.adopt(VERDICT), id="verdict"),
    ],
)
def test_who_never_starts_a_round(prepare: Any) -> None:
    """A worker that leaves, cannot, or knows the verdict."""
    member = make_member()
    prepare(member)
    member.take_effects()
    member.receive(run(4), 0.0)
    assert not [effect for effect in member.take_effects() if isinstance(effect, StartRanks)]


def test_the_same_order_again_changes_nothing() -> None:
    """Orders are repeated until the coordinator has heard that they were taken."""
    member = running_member()
    member.receive(run(4, sequence=2), 0.0)
    assert member.take_effects() == []
    member.ranks_ended(RoundId(4, OLD), clean=True)
    member.receive(run(4, sequence=3), 0.0)
    assert member.take_effects() == []


def test_a_later_round_ends_the_ranks_of_the_earlier_first() -> None:
    """Nothing of the later one starts: its coordinator did not know of these ranks."""
    member = running_member()
    member.receive(run(5, coordinator=NEW, sequence=2), 0.0)
    assert member.take_effects() == [RememberRound(5), StopRanks(RoundId(4, OLD))]
    member.ranks_ended(RoundId(4, OLD), clean=True)
    assert member.take_effects() == []
    assert member.make_report(0.0).outcome == m.STOPPED


def test_a_fence_forbids_a_round_that_was_never_started() -> None:
    """A late order for a round that is over is not obeyed."""
    member = make_member()
    member.receive(say(m.WAIT, fence=4), 0.0)
    assert member.changed
    member.receive(run(4, sequence=2), 0.0)
    assert member.take_effects() == [RememberRound(4)]


def test_an_earlier_answer_after_a_later_one_is_ignored() -> None:
    """Answers may overtake one another."""
    member = make_member()
    member.receive(say(m.WAIT, sequence=5), 0.0)
    member.receive(run(4, sequence=4), 0.0)
    assert member.state == m.WAITING


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [
        pytest.param([], m.SUCCESS, id="all-exit-0"),
        pytest.param([failure(1.0)], m.FAILED, id="one-fails"),
        pytest.param(None, m.STOPPED, id="asked-to-stop"),
    ],
)
def test_outcomes(ends: list[RankFailure] | None, outcome: str) -> None:
    """An exit 0 after a stop request is no success."""
    member = running_member()
    if ends is None:
        member.receive(say(m.STOP, round=RoundId(4, OLD), sequence=2), 0.0)
    for end in ends or []:
        member.rank_failed(RoundId(4, OLD), end, 0.0)
        assert member.take_effects() == [StopRanks(RoundId(4, OLD))]
        assert member.changed
    member.ranks_ended(RoundId(4, OLD), clean=True)
    assert member.make_report(0.0).outcome == outcome
    assert member.state == m.WAITING


def test_a_closed_connection_leaves_the_others_time_to_tell() -> None:
    """The rank that closed it may be one of this worker."""
    member = running_member()
    member.rank_failed(RoundId(4, OLD), failure(1.0, consequence=True), 10.0)
    assert member.changed
    member.tick(11.9)
    assert member.take_effects() == []
    assert member.stop_at() == 12.0
    member.tick(12.0)
    assert member.take_effects() == [StopRanks(RoundId(4, OLD))]
    member.rank_failed(RoundId(4, OLD), failure(2.0, consequence=True), 12.5)
    assert member.stop_at() == float("inf")
    member.ranks_ended(RoundId(4, OLD), clean=True)
    assert member.make_report(12.0).outcome == m.FAILED


def test_many_failures_keep_the_most_telling() -> None:
    """A report is bounded: causes before consequences, early before late."""
    member = running_member()
    for time in range(9, 0, -1):
        member.rank_failed(RoundId(4, OLD), failure(float(time), consequence=time < 8), 0.0)
    kept = [(end.time, end.consequence) for end in member.make_report(0.0).failures]
    assert kept == [(8.0, False), (9.0, False), (1.0, True), (2.0, True)]


def test_superseded_stops_and_parks_until_it_counts_again() -> None:
    """The other pod may fall silent; then this one is asked again."""
    member = running_member()
    member.receive(say(m.SUPERSEDED, sequence=2), 0.0)
    assert member.take_effects() == [StopRanks(RoundId(4, OLD))]
    member.ranks_ended(RoundId(4, OLD), clean=True)
    assert member.state == m.PARKED
    member.receive(say(m.WAIT, sequence=3), 0.0)
    assert member.state == m.WAITING


def test_an_outranked_coordinator_is_not_obeyed_while_the_later_one_is_heard() -> None:
    """And once the later one is silent, it is."""
    member = make_member()
    member.receive(say(m.WAIT, coordinator=NEW, sequence=1), 0.0)
    member.receive(run(4, coordinator=OLD, sequence=2), 1.0)
    assert member.state == m.WAITING
    assert member.make_report(1.0).coordinator == NEW
    member.receive(run(4, coordinator=OLD, sequence=3), 11.0)
    assert member.state == m.STARTING


@pytest.mark.parametrize(
    ("number", "heard"), [(5, True), (3, False)], ids=["of-its-round", "of-an-earlier-round"]
)
def test_a_verdict_from_an_outranked_coordinator(number: int, *, heard: bool) -> None:
    """It counts unless this worker has obeyed a later round since."""
    member = running_member()
    member.receive(say(m.WAIT, coordinator=NEW, sequence=2), 0.0)
    member.receive(say(m.DONE, coordinator=OLD, sequence=3, verdict={**VERDICT, "round": number}), 0.0)
    assert (member.verdict is not None) is heard


def test_a_verdict_is_kept_once_no_rank_is_alive() -> None:
    """Ranks end first; the first verdict stands; it is told at once and in every report."""
    member = running_member()
    member.receive(say(m.DONE, sequence=2, verdict=VERDICT), 0.0)
    assert member.take_effects() == [StopRanks(RoundId(4, OLD))]
    member.ranks_ended(RoundId(4, OLD), clean=True)
    assert member.take_effects() == [KeepVerdict(VERDICT)]
    member.receive(say(m.DONE, sequence=3, verdict={**VERDICT, "outcome": "Failed"}), 0.0)
    assert member.make_report(0.0).verdict == VERDICT
    assert member.state == m.PARKED


def test_reports_are_due_at_once_on_a_change_and_else_each_period() -> None:
    """The period of 512 workers is eight seconds."""
    member = Member(job_uid="job", worker=1, identity=ME, timing=Timing.for_workers(512))
    assert member.report_due(0.0)
    member.make_report(0.0)
    assert not member.report_due(7.9)
    assert member.report_due(8.0)
    member.request_stop(0.0)
    assert member.report_due(1.0)


def test_park_only_reports_that_it_is_parked() -> None:
    """It is never taken for ready."""
    member = make_member(park_only=True)
    member.receive(run(4), 0.0)
    assert member.state == m.PARKED
    assert member.take_effects() == []


def test_ranks_that_still_run_are_told_once_one_has_succeeded() -> None:
    """At once after the first; a later round begins anew."""
    member = make_member()
    member.receive(say(m.RUN, order=Order(RoundId(4, OLD), 3, "10.0.0.1", 29500)), 0.0)
    member.ranks_started(RoundId(4, OLD))
    assert member.make_report(0.0).unfinished is None
    member.rank_succeeded(RoundId(3, OLD), 4)
    assert (member.changed, member.make_report(0.0).unfinished) == (False, None)
    member.rank_succeeded(RoundId(4, OLD), 4)
    assert (member.changed, member.make_report(0.0).unfinished) == (True, (3, 5))
    member.rank_succeeded(RoundId(4, OLD), 3)
    assert (member.changed, member.make_report(0.0).unfinished) == (False, (5,))
    member.rank_succeeded(RoundId(4, OLD), 5)
    member.ranks_ended(RoundId(4, OLD), clean=True)
    report = member.make_report(0.0)
    assert (report.outcome, report.unfinished) == (m.SUCCESS, None)


@pytest.mark.parametrize(
    ("clean", "outcome"), [(True, m.YIELDED), (False, m.STOPPED)], ids=["all-exit-0", "another-code"]
)
def test_ranks_that_are_asked_to_save(*, clean: bool, outcome: str) -> None:
    """Once, by the gang's word; how they end is told, and whether rank 0 had finished."""
    member = running_member()
    for sequence in (2, 3):
        member.receive(say(m.SAVE, round=RoundId(4, OLD), sequence=sequence), 10.0)
    assert member.take_effects() == [AskRanks(RoundId(4, OLD))]
    assert (member.state, member.make_report(10.0).asked) == (m.STOPPING, True)
    member.ranks_ended(RoundId(4, OLD), clean=clean, finished=True)
    report = member.make_report(11.0)
    assert (report.outcome, report.finished, report.state) == (outcome, True, m.WAITING)
    assert member.stop_at() == float("inf")


def test_ranks_that_do_not_end_are_killed_at_the_deadline() -> None:
    """Counted from the first word of it, whoever's that was."""
    member = make_member(save_seconds=20.0)
    member.receive(run(4), 0.0)
    member.take_effects()
    member.request_stop(10.0)
    member.receive(say(m.SAVE, round=RoundId(4, OLD), sequence=2), 11.0)
    member.tick(29.9)
    assert member.take_effects() == [AskRanks(RoundId(4, OLD))]
    assert member.stop_at() == 30.0
    member.tick(30.0)
    assert member.take_effects() == [StopRanks(RoundId(4, OLD), grace_seconds=0.0)]


def test_ranks_are_asked_alone_where_no_word_comes() -> None:
    """Not twice, and once more when the word comes after all."""
    member = running_member()
    member.request_stop(0.0)
    for _ in range(2):
        member.ask_alone()
    assert member.take_effects() == [AskRanks(RoundId(4, OLD), alone=True)]
    assert not member.make_report(0.0).asked
    member.receive(say(m.SAVE, round=RoundId(4, OLD), sequence=2), 1.0)
    assert member.take_effects() == [AskRanks(RoundId(4, OLD))]
    member.ask_alone()
    assert member.take_effects() == []
    member.ranks_ended(RoundId(4, OLD), clean=True)
    assert member.make_report(2.0).outcome == m.YIELDED


@pytest.mark.parametrize("round_id", [RoundId(3, OLD), RoundId(4, NEW)], ids=["earlier", "anothers"])
def test_the_word_for_another_round_asks_nobody(round_id: RoundId) -> None:
    """Late words and other coordinators'."""
    member = running_member()
    member.receive(say(m.SAVE, round=round_id, sequence=2), 0.0)
    assert member.take_effects() == []
