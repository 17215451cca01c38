"""When a round opens, how it ends, which failure is named, and what the verdict is."""

from __future__ import annotations

from typing import Any

import pytest
from xeontrain_trainer.gang import messages as m
from xeontrain_trainer.gang.coordinator import Coordinator, PrepareRound, Publish, RoundEnded, RoundOpened
from xeontrain_trainer.gang.identity import Identity, RoundId
from xeontrain_trainer.gang.messages import Answer, RankFailure, Refusal, Report
from xeontrain_trainer.gang.timing import Timing
from xeontrain_trainer.gang.verdict import Decision

ZERO = Identity("pod-0", 1, 100.0)


class Bench:
    """A coordinator of three workers, with reports made by hand."""

    def __init__(self, *, workers: int = 3, **options: Any) -> None:
        self.now = 0.0
        self.workers = workers
        self.identities = [Identity(f"pod-{worker}", 1, 100.0) for worker in range(workers)]
        self.sequences: dict[Identity, int] = {}
        self.coordinator = Coordinator(
            job_uid="job",
            identity=ZERO,
            workers=workers,
            timing=Timing.for_workers(workers),
            agree_ranks=min,
            master_addr="10.0.0.1",
            **{"backoff_limit": 3, **options},
        )

    def report(self, worker: int, *, by: Identity | None = None, **fields: Any) -> Answer:
        """One report; the answer to it."""
        identity = by or self.identities[worker]
        sequence = self.sequences[identity] = self.sequences.get(identity, 0) + 1
        values = {"state": m.WAITING, "ranks": 2, "highest": self.coordinator.fence, **fields}
        report = Report("job", worker, identity, values.pop("sequence", sequence), **values)
        self.coordinator.receive(report, self.now)
        return self.coordinator.answer(report)

    def all_report(self, **fields: Any) -> None:
        """The same report from all."""
        for worker in range(self.workers):
            self.report(worker, **fields)

    def open(self, number: int | None = None) -> RoundId:
        """Opens a round in which all run."""
        self.all_report()
        prepare = [e for e in self.coordinator.take_effects() if isinstance(e, PrepareRound)]
        assert len(prepare) == 1
        number = number or prepare[0].above + 1
        self.coordinator.round_prepared(number, master_port=29500, now=self.now)
        assert isinstance(self.coordinator.take_effects()[0], RoundOpened)
        round_id = RoundId(number, ZERO)
        for worker in range(self.workers):
            self.in_round(worker, round_id)
        return round_id

    def in_round(self, worker: int, round_id: RoundId, **fields: Any) -> Answer:
        """A report of a worker that obeys the round; `alive` unless an outcome is given."""
        alive = "outcome" not in fields
        state = m.RUNNING if alive else m.WAITING
        values = {"state": state, "alive": alive, "round": round_id, "highest": round_id.number, **fields}
        return self.report(worker, **values)

    def sleep(self, seconds: float) -> None:
        """Time passes with the coordinator awake."""
        until = self.now + seconds
        while self.now < until:
            self.now += 0.5
            self.coordinator.tick(self.now)

    def effects(self, kind: type) -> list[Any]:
        """What the coordinator wants, of one kind."""
        return [effect for effect in self.coordinator.take_effects() if isinstance(effect, kind)]

    def decision(self) -> Decision | None:
        """The verdict that is to be published, if any."""
        found = self.effects(Publish)
        return found[0].decision if found else None


def boom(worker: int, *, time: float = 1.0, code: int | None = 1, consequence: bool = False) -> RankFailure:
    """A rank's end."""
    signal = 9 if code is None else None
    return RankFailure(worker, worker, code, signal, f"boom {worker}", time, consequence)


def test_a_round_opens_when_all_are_ready() -> None:
    """With the smallest number of ranks, the number above all that are known, and an order to each."""
    bench = Bench()
    bench.report(0, ranks=4)
    bench.report(1, ranks=3)
    assert not bench.effects(PrepareRound)
    bench.report(2, highest=7)
    assert not bench.effects(PrepareRound)
    bench.report(0, ranks=4, highest=7)
    bench.report(1, ranks=3, highest=7)
    assert bench.effects(PrepareRound) == [PrepareRound(above=7)]
    bench.coordinator.round_prepared(9, master_port=29508, now=0.0)
    order = bench.report(1, highest=7).order
    assert order is not None
    assert (order.round, order.ranks_per_worker, order.master_port) == (RoundId(9, ZERO), 2, 29508)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"alive": True, "state": m.RUNNING, "round": RoundId(1, ZERO)}, id="ranks-alive"),
        pytest.param({"state": m.PARKED}, id="parked"),
        pytest.param({"leaving": True}, id="leaving"),
        pytest.param({"highest": 0}, id="may-still-start-an-earlier-round"),
    ],
)
def test_no_round_opens_while_one_is_not_ready(fields: dict[str, Any]) -> None:
    """Also not where it becomes so after the round was prepared."""
    bench = Bench(highest=1)
    bench.report(0)
    bench.report(1)
    bench.report(2, **fields)
    assert not bench.effects(PrepareRound)
    bench.report(2)
    assert bench.effects(PrepareRound)
    bench.report(2, **{"highest": 1, **fields, "state": fields.get("state", m.STOPPING)})
    bench.coordinator.round_prepared(2, master_port=29500, now=0.0)
    assert not bench.effects(RoundOpened)


def test_a_stale_number_opens_nothing() -> None:
    """A member has heard of a higher round while this one was being written down."""
    bench = Bench()
    bench.all_report()
    bench.all_report(highest=5)
    bench.coordinator.round_prepared(1, master_port=29500, now=0.0)
    assert not bench.effects(RoundOpened)


def test_preparation_is_tried_again() -> None:
    """Storage may be away for a while."""
    bench = Bench()
    bench.all_report()
    assert bench.effects(PrepareRound)
    bench.coordinator.prepare_failed(bench.now)
    bench.sleep(0.5)
    assert not bench.effects(PrepareRound)
    bench.sleep(1)
    assert bench.effects(PrepareRound)


def test_success_is_the_success_of_all_in_one_round() -> None:
    """A success of an earlier round counts for nothing."""
    bench = Bench()
    first = bench.open()
    bench.in_round(0, first, outcome=m.SUCCESS)
    bench.in_round(1, first, outcome=m.FAILED, failures=(boom(1),))
    bench.in_round(2, first, outcome=m.STOPPED)
    second = bench.open()
    bench.in_round(0, first, outcome=m.SUCCESS, highest=2)
    bench.in_round(1, second, outcome=m.SUCCESS)
    bench.in_round(2, second, outcome=m.SUCCESS)
    assert bench.decision() is None


def test_success_of_all() -> None:
    """Also where a launcher that has succeeded is replaced before the last one has."""
    bench = Bench()
    first = bench.open()
    bench.in_round(0, first, outcome=m.SUCCESS)
    bench.in_round(1, first, outcome=m.SUCCESS)
    bench.report(1, by=Identity("pod-1b", 1, 200.0))
    bench.in_round(2, first, outcome=m.SUCCESS)
    assert bench.decision() == Decision(outcome="Succeeded", round=1, failures=0)


def test_done_is_answered_once_the_verdict_is_on_disk() -> None:
    """Until then nobody is told anything, and no round opens; afterwards everybody is."""
    bench = Bench(workers=1)
    first = bench.open()
    assert bench.in_round(0, first, outcome=m.SUCCESS).kind == m.WAIT
    assert not bench.effects(PrepareRound)
    document = {"round": 1, "outcome": "Succeeded"}
    bench.coordinator.published(document)
    for by in (None, Identity("stranger", 1, 900.0)):
        answer = bench.report(0, by=by)
        assert (answer.kind, answer.verdict) == (m.DONE, document)
    bench.coordinator.published({"round": 1, "outcome": "Failed"})
    assert bench.coordinator.verdict == document


@pytest.mark.parametrize(
    ("failures", "cause"),
    [
        pytest.param([boom(1, time=2.0), boom(2, time=1.0)], 2, id="first-by-time"),
        pytest.param([boom(1, time=2.0), boom(2, time=1.0, consequence=True)], 1, id="no-closed-connection"),
        pytest.param(
            [boom(1, time=2.0, consequence=True), boom(2, time=1.0, consequence=True)], 2, id="nothing-else"
        ),
    ],
)
def test_the_cause_of_a_failure(failures: list[RankFailure], cause: int) -> None:
    """It is named when all have told of the round's end, and counted once."""
    bench = Bench()
    first = bench.open()
    for failure in failures:
        answer = bench.in_round(failure.worker, first, outcome=m.FAILED, failures=(failure,))
        assert not bench.effects(RoundEnded)
    assert answer.kind == m.WAIT
    bench.in_round(0, first, outcome=m.STOPPED)
    record = bench.effects(RoundEnded)[0].failure
    assert record is not None
    assert (record.id, record.cause.worker, record.reason) == ("pod-0/1", cause, "RankFailed")
    assert bench.coordinator.failures_counted == 1


def test_the_cause_is_named_after_five_seconds_at_the_latest() -> None:
    """Someone may never tell."""
    bench = Bench()
    first = bench.open()
    bench.in_round(1, first, failures=(boom(1),), state=m.STOPPING)
    bench.sleep(4.5)
    assert not bench.effects(RoundEnded)
    bench.sleep(1)
    assert bench.effects(RoundEnded)[0].failure is not None


def test_ranks_are_left_alone_while_the_cause_is_not_told() -> None:
    """Two seconds after a closed connection they are stopped; at once when a cause is known."""
    bench = Bench()
    first = bench.open()
    bench.in_round(1, first, failures=(boom(1, consequence=True),))
    assert bench.in_round(0, first).kind == m.WAIT
    revision = bench.coordinator.revision
    bench.sleep(2)
    assert bench.coordinator.revision > revision
    assert bench.in_round(0, first).kind == m.STOP
    second = Bench()
    first = second.open()
    second.in_round(1, first, failures=(boom(1, consequence=True),))
    second.in_round(2, first, failures=(boom(2),))
    assert second.in_round(0, first).kind == m.STOP


def test_a_closed_connection_waits_for_what_closed_it() -> None:
    """A worker that died whole is found by its silence, and is not counted here."""
    bench = Bench()
    first = bench.open()
    for _ in range(12):
        bench.in_round(0, first, outcome=m.STOPPED)
        bench.in_round(1, first, outcome=m.FAILED, failures=(boom(1, consequence=True),))
        bench.sleep(1)
    ended = bench.effects(RoundEnded)
    assert [(end.kind, end.failure) for end in ended] == [("lost", None)]
    assert bench.coordinator.failures_counted == 0


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        pytest.param({"leaving": True}, "interrupted", id="asked-to-stop"),
        pytest.param({"by": Identity("pod-2", 2, 90.0), "round": None}, "lost", id="container-restarted"),
        pytest.param({"by": Identity("pod-2b", 1, 200.0), "round": None}, "lost", id="pod-replaced"),
        pytest.param({"round": None, "highest": 5}, "lost", id="cannot-obey-any-more"),
        pytest.param({"outcome": m.STOPPED}, "lost", id="stopped-by-another"),
    ],
)
def test_what_ends_a_round_uncounted(fields: dict[str, Any], kind: str) -> None:
    """Even where another rank fails beside it."""
    bench = Bench()
    first = bench.open()
    bench.in_round(2, first, **fields)
    bench.in_round(1, first, outcome=m.FAILED, failures=(boom(1),))
    bench.in_round(0, first, outcome=m.STOPPED)
    bench.sleep(12)
    ended = bench.effects(RoundEnded)
    assert [(end.kind, end.failure) for end in ended] == [(kind, None)]
    assert bench.coordinator.failures_counted == 0


@pytest.mark.parametrize(
    ("code", "options", "reason"),
    [
        pytest.param(65, {}, "UserError", id="user-error"),
        pytest.param(75, {"backoff_limit": 0}, "BackoffLimitExceeded", id="interrupted-without-being-asked"),
        pytest.param(None, {"backoff_limit": 0}, "BackoffLimitExceeded", id="signal"),
        pytest.param(
            1, {"backoff_limit": 4, "failures_counted": 4}, "BackoffLimitExceeded", id="counted-before"
        ),
        pytest.param(1, {"backoff_limit": 1}, None, id="within-the-limit"),
    ],
)
def test_when_the_job_fails(code: int | None, options: dict[str, Any], reason: str | None) -> None:
    """At once on a user error, else when more failures are counted than backoffLimit allows."""
    bench = Bench(workers=1, **options)
    first = bench.open()
    bench.in_round(0, first, outcome=m.FAILED, failures=(boom(0, code=code),))
    decision = bench.decision()
    if reason is None:
        assert decision is None
        return
    assert decision is not None
    assert decision.outcome == "Failed"
    assert decision.failures == options.get("failures_counted", 0) + 1
    assert decision.failure == {
        "worker": 0,
        "rank": 0,
        "exitCode": code,
        "signal": 9 if code is None else None,
        "reason": reason,
        "message": "boom 0",
    }


def test_a_refusal_ends_the_job() -> None:
    """Before any round opens."""
    bench = Bench()
    bench.report(2, refusal=Refusal("NotPinned", "spec.pinning is Required, but ...", "SharedPool"))
    decision = bench.decision()
    assert decision is not None
    assert decision.failure is not None
    assert (decision.failure["worker"], decision.failure["reason"]) == (2, "NotPinned")
    assert decision.failure["detail"] == "SharedPool"


def test_a_members_verdict_is_adopted() -> None:
    """As it is: the document is published again, unchanged."""
    bench = Bench()
    document = {"round": 3, "outcome": "Succeeded", "failures": 1, "failure": None}
    bench.report(1, verdict=document, state=m.PARKED)
    decision = bench.decision()
    assert decision is not None
    assert decision.document == document


def test_silence_counts_while_the_coordinator_is_awake() -> None:
    """Its own sleep makes nobody lost."""
    bench = Bench()
    first = bench.open()
    bench.now += 3600
    bench.coordinator.tick(bench.now)
    assert bench.coordinator.seats.missing() == []
    for _ in range(11):
        bench.in_round(0, first)
        bench.in_round(1, first)
        bench.sleep(1)
    assert bench.coordinator.seats.missing() == [2]
    assert bench.in_round(0, first).kind == m.STOP
    assert bench.in_round(2, first).kind == m.STOP
    assert bench.coordinator.seats.missing() == []


def test_of_two_pods_the_later_started_counts_until_it_is_silent() -> None:
    """The other is told so, and asked again when the later one is gone."""
    bench = Bench()
    old, new = bench.identities[1], Identity("pod-1b", 1, 200.0)
    bench.report(1)
    bench.report(1, by=new)
    assert bench.report(1, by=old).kind == m.SUPERSEDED
    assert bench.report(1, by=new).kind == m.WAIT
    for _ in range(11):
        answer = bench.report(1, by=old, state=m.PARKED)
        bench.sleep(1)
    answer = bench.report(1, by=old, state=m.PARKED)
    assert answer.kind == m.WAIT


def test_an_earlier_start_of_the_same_pod_never_counts() -> None:
    """Not even when the later one is silent: its process is gone, so this is a late message."""
    bench = Bench()
    bench.report(1, by=Identity("pod-1", 2, 50.0))
    bench.sleep(12)
    assert bench.report(1, by=Identity("pod-1", 1, 100.0)).kind == m.SUPERSEDED


@pytest.mark.parametrize("hint", ["member", "rival"])
def test_a_later_started_coordinator_takes_over(hint: str) -> None:
    """This one ends its round and sends everybody elsewhere, for as long as the other is heard."""
    bench = Bench()
    first = bench.open()
    rival = Identity("pod-0b", 1, 200.0)
    told = {
        "member": lambda: bench.in_round(1, first, coordinator=rival),
        "rival": lambda: bench.report(0, by=rival),
    }
    answer = told[hint]()
    assert answer.kind == m.ELSEWHERE
    bench.sleep(6)
    assert bench.effects(RoundEnded)[0].kind == "lost"
    bench.sleep(6)
    assert bench.report(1).kind != m.ELSEWHERE


def test_a_late_copy_of_a_report_tells_nothing() -> None:
    """It does not make a running worker ready."""
    bench = Bench(workers=1)
    bench.open()
    bench.report(0, sequence=1)
    round_ = bench.coordinator.round
    assert round_ is not None
    assert not round_.ending


def test_answers_are_held_until_there_is_something_to_do() -> None:
    """The order and the end of a round are urgent; a superseded copy of a report is let go."""
    bench = Bench(workers=1)
    report = Report("job", 0, ZERO, 1, m.WAITING, 2, 0)
    bench.coordinator.receive(report, 0.0)
    revision = bench.coordinator.revision
    assert not bench.coordinator.urgent(bench.coordinator.answer(report), report)
    bench.coordinator.round_prepared(1, master_port=29500, now=0.0)
    assert bench.coordinator.revision > revision
    assert bench.coordinator.urgent(bench.coordinator.answer(report), report)


def test_withdrawing_leaves_the_word_to_the_other_coordinator() -> None:
    """Storage shows a later round than the one that was to be published."""
    bench = Bench(workers=1)
    first = bench.open()
    bench.in_round(0, first, outcome=m.SUCCESS)
    assert bench.decision() is not None
    bench.coordinator.withdraw()
    assert bench.report(0).kind == m.ELSEWHERE
    assert bench.coordinator.verdict is None


def test_the_last_32_failures_are_listed() -> None:
    """All are counted."""
    bench = Bench(workers=1, backoff_limit=100)
    for _ in range(40):
        round_id = bench.open()
        bench.in_round(0, round_id, outcome=m.FAILED, failures=(boom(0),))
    assert [record.round for record in bench.coordinator.failures] == list(range(9, 41))
    assert bench.coordinator.failures_counted == 40


def test_ranks_that_others_wait_for_are_named() -> None:
    """Once a first rank has succeeded: by the word of their worker, or all of one that has told of none; no
    longer once the round ends or all have succeeded."""
    bench = Bench()
    round_id = bench.open()
    assert bench.coordinator.stragglers() is None
    bench.in_round(2, round_id, outcome=m.SUCCESS)
    bench.sleep(5)
    bench.in_round(0, round_id, unfinished=(1,))
    found = bench.coordinator.stragglers()
    assert found is not None
    assert (found.ranks, found.count, round(found.seconds)) == ((1, 2, 3), 3, 5)
    bench.in_round(0, round_id, unfinished=())
    found = bench.coordinator.stragglers()
    assert found is not None
    assert found.ranks == (2, 3)
    bench.in_round(1, round_id, failures=(boom(1),))
    assert bench.coordinator.stragglers() is None


def test_a_long_list_of_ranks_is_cut_and_counted() -> None:
    """What is shown stays small in a gang of hundreds."""
    bench = Bench(workers=40)
    round_id = bench.open()
    bench.in_round(39, round_id, outcome=m.SUCCESS)
    found = bench.coordinator.stragglers()
    assert found is not None
    assert (len(found.ranks), found.count) == (16, 78)


def test_how_long_a_worker_has_been_in_its_state() -> None:
    """Reports of the same state change nothing."""
    bench = Bench()
    bench.all_report()
    bench.sleep(3)
    bench.all_report()
    bench.sleep(2)
    bench.report(1, state=m.STOPPING, alive=True, round=RoundId(1, ZERO), highest=1)
    seats = {seat.report.worker: seat for seat in bench.coordinator.seats}
    assert [round(bench.coordinator.state_seconds(seats[worker])) for worker in range(3)] == [5, 0, 5]


def asked(*, workers: int = 2, **options: Any) -> tuple[Bench, RoundId]:
    """A round whose last worker is to leave."""
    bench = Bench(workers=workers, **options)
    first = bench.open()
    bench.in_round(workers - 1, first, leaving=True)
    return bench, first


def test_a_worker_that_leaves_has_all_ranks_asked() -> None:
    """Each once; and they are left alone while they save, also after others have ended."""
    bench, first = asked(workers=3)
    saves = bench.in_round(0, first)
    assert (saves.kind, saves.round) == (m.SAVE, first)
    assert bench.in_round(2, first, leaving=True).kind == m.SAVE
    saving: dict[str, Any] = {"asked": True, "state": m.STOPPING}
    assert bench.in_round(0, first, **saving).kind == m.WAIT
    bench.in_round(2, first, leaving=True, asked=True, outcome=m.STOPPED)
    for _ in range(8):
        assert bench.in_round(0, first, **saving).kind == m.WAIT
        assert bench.in_round(1, first).kind == m.SAVE
        bench.sleep(1)
    assert not bench.effects(RoundEnded)
    bench.in_round(0, first, asked=True, outcome=m.STOPPED)
    bench.in_round(1, first, asked=True, outcome=m.YIELDED)
    assert [(end.kind, end.failure) for end in bench.effects(RoundEnded)] == [("interrupted", None)]
    assert not bench.coordinator.busy


@pytest.mark.parametrize(
    ("outcomes", "finished", "succeeds"),
    [
        pytest.param((m.YIELDED, m.YIELDED), True, True, id="finished"),
        pytest.param((m.YIELDED, m.YIELDED), False, False, id="not-finished"),
        pytest.param((m.SUCCESS, m.YIELDED), False, False, id="not-finished-in-one-worker"),
        pytest.param((m.SUCCESS, m.YIELDED), True, True, id="asked-too-late"),
        pytest.param((m.SUCCESS, m.SUCCESS), False, True, id="nobody-was-asked-in-time"),
        pytest.param((m.YIELDED, m.STOPPED), True, False, id="another-code-in-one-worker"),
    ],
)
def test_an_exit_0_after_a_stop_request(outcomes: tuple[str, str], *, finished: bool, succeeds: bool) -> None:
    """It is a success only where rank 0 had finished."""
    bench, first = asked()
    bench.in_round(0, first, outcome=outcomes[0], finished=finished)
    bench.in_round(1, first, outcome=outcomes[1], leaving=True)
    effects = bench.coordinator.take_effects()
    decided = [effect.decision.outcome for effect in effects if isinstance(effect, Publish)]
    ended = [effect.kind for effect in effects if isinstance(effect, RoundEnded)]
    assert (decided, ended) == ((["Succeeded"], []) if succeeds else ([], ["interrupted"]))
    assert bench.coordinator.failures_counted == 0


@pytest.mark.parametrize("begun", [True, False])
def test_ranks_with_nothing_to_save_end_at_once(*, begun: bool) -> None:
    """A training that still loads its model."""
    bench, first = asked(has_begun=lambda: begun)
    assert bench.in_round(0, first).kind == (m.SAVE if begun else m.STOP)


def test_a_round_that_one_has_not_joined_ends_at_once() -> None:
    """Its ranks wait for those that will never start."""
    bench = Bench(workers=2)
    bench.all_report()
    bench.coordinator.round_prepared(1, master_port=29500, now=0.0)
    bench.in_round(0, RoundId(1, ZERO))
    bench.report(1, leaving=True, highest=0)
    assert bench.in_round(0, RoundId(1, ZERO)).kind == m.STOP


def test_ranks_that_save_for_an_earlier_coordinator_are_left_alone() -> None:
    """They have a deadline of their own; until then no round opens."""
    bench = Bench(workers=2)
    bench.report(0)
    earlier = RoundId(1, Identity("pod-00", 1, 50.0))
    answer = bench.report(1, alive=True, asked=True, state=m.STOPPING, round=earlier, highest=1)
    assert answer.kind == m.WAIT
    assert not bench.effects(PrepareRound)
