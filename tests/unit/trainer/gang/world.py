"""A simulated cluster in which the gang's state machines meet every fault, from one seed.

Everything is in memory and in simulated time: launchers (a Member, for worker 0 also a Coordinator), pods
with their emptyDir, the job's storage, ranks that need their peers, a network that loses, delays and repeats
messages, and an operator that replaces pods. The invariants of the design are checked at each step; a breach
raises Violation.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from xeontrain_trainer.gang import coordinator as co
from xeontrain_trainer.gang import member as me
from xeontrain_trainer.gang import messages as m
from xeontrain_trainer.gang.coordinator import Coordinator
from xeontrain_trainer.gang.identity import Identity, RoundId
from xeontrain_trainer.gang.member import Member
from xeontrain_trainer.gang.messages import Answer, Order, RankFailure, Report
from xeontrain_trainer.gang.timing import RECONNECT_SECONDS, Timing
from xeontrain_trainer.gang.verdict import Decision

JOB = "job-uid"
EPOCH = 1_700_000_000.0
MAX_STEPS_A_WORKER = 20_000
FAULTS = ("crash", "crash", "replace", "zombie", "cut", "sleep", "sigterm", "sigterm", "drain")


class Violation(AssertionError):
    """An invariant of the gang does not hold."""


@dataclass(frozen=True)
class Scenario:
    """What one history may contain. Probabilities are per message or per rank; faults happen until
    `quiet_at`.

    `save_seconds`: what ranks have to save. `stubborn`: share of them that do not do it.
    `rivals`: share of the faults that befall worker 0. `connection_seconds`: how long a member stays with the
    launcher that worker 0's name led it to.
    """

    workers: int
    storage: bool
    zombies: bool
    rivals: float
    backoff_limit: int
    loss: float
    repeat: float
    late: float
    rank_failure: float
    user_error: float
    fault_rate: float
    quiet_at: float
    run_seconds: float
    connection_seconds: float
    save_seconds: float
    stubborn: float
    clock_skew: float
    codec: bool
    deadline: float

    @classmethod
    def draw(cls, rng: random.Random, *, workers: int) -> Scenario:
        """A scenario of this many workers."""
        quiet_at = rng.uniform(4, 40)
        return cls(
            workers=workers,
            storage=rng.random() < 0.5,
            zombies=rng.random() < 0.5,
            rivals=rng.choice((0.1, 0.3, 0.8)),
            backoff_limit=rng.choice((0, 1, 3, 1000, 1000)),
            loss=rng.choice((0.0, 0.02, 0.3)),
            repeat=rng.choice((0.0, 0.1, 0.5)),
            late=rng.choice((0.0, 0.1, 0.4)),
            rank_failure=min(0.9, rng.choice((0.0, 0.3, 1.0)) / workers),
            user_error=rng.choice((0.0, 0.0, 0.3)),
            fault_rate=rng.choice((0.1, 0.3, 1.0)),
            quiet_at=quiet_at,
            run_seconds=rng.choice((rng.uniform(0.3, 2), rng.uniform(2, 10))),
            connection_seconds=rng.choice((0.5, RECONNECT_SECONDS)),
            save_seconds=rng.choice((1.0, 5.0, 30.0)),
            stubborn=rng.choice((0.0, 0.0, 0.3)),
            clock_skew=rng.choice((0.0, 0.0, 3.0, 40.0)),
            codec=rng.random() < 0.05,
            deadline=quiet_at + 180 + 8 * Timing.for_workers(workers).silent,
        )


@dataclass
class Pod:
    """A pod and its emptyDir."""

    uid: str
    worker: int
    skew: float
    starts: int = 0
    round: int = 0
    marker: dict[str, Any] | None = None
    highest_started: int = 0


@dataclass
class Storage:
    """The job's folder on a shared volume."""

    round: int = 0
    result: dict[str, Any] | None = None


@dataclass
class RoundTruth:
    """What really happened in a round. `started`, `succeeded`: launchers by worker. `yielded`: of those that
    succeeded, the ones whose ranks had been asked to end. `finished`: rank 0 came to the end of its work."""

    order: Order
    started: dict[int, Launcher] = field(default_factory=dict)
    succeeded: set[int] = field(default_factory=set)
    yielded: set[int] = field(default_factory=set)
    finished: bool = False


class Launcher:
    """One start of a pod's container: the state machines and the ranks."""

    def __init__(self, world: World, pod: Pod) -> None:
        pod.starts += 1
        self.world = world
        self.pod = pod
        self.worker = pod.worker
        self.dead = False
        self.asleep_until = 0.0
        self.cut_until = 0.0
        self.ranks: RoundId | None = None
        self.told: dict[str, Any] | None = None
        identity = Identity(pod.uid, pod.starts, EPOCH + world.now + pod.skew)
        timing = world.timing
        self.member = Member(
            job_uid=JOB,
            worker=pod.worker,
            identity=identity,
            timing=timing,
            ranks=world.rng.randint(1, 4),
            highest=pod.round,
            verdict=pod.marker,
            save_seconds=world.scenario.save_seconds,
        )
        self.begun_at = 0.0
        self.leave_by: float | None = None
        self.coordinator: Coordinator | None = None
        self.held: dict[Identity, tuple[Report, float]] = {}
        self._revision = -1
        self._connection: Launcher | None = None
        self._connected_at = 0.0
        self._wake_token = 0
        if pod.worker == 0:
            self._coordinate(identity, timing)

    def _coordinate(self, identity: Identity, timing: Timing) -> None:
        world, pod = self.world, self.pod
        self.coordinator = Coordinator(
            job_uid=JOB,
            identity=identity,
            workers=world.scenario.workers,
            timing=timing,
            agree_ranks=min,
            master_addr="10.0.0.1",
            backoff_limit=world.scenario.backoff_limit,
            has_begun=lambda: self.ranks is not None and world.now > self.begun_at,
            highest=max(pod.round, world.storage.round),
            verdict=pod.marker,
        )
        if pod.marker is None and world.storage.result is not None:
            self.coordinator.adopt(world.storage.result)

    def start(self) -> None:
        """The process is up."""
        if self.coordinator is not None:
            self._tick_coordinator()
        self.pump()

    # The member.

    def pump(self) -> None:
        """Perform the member's effects, send its report if one is due, and wake up for the next."""
        if self.dead:
            return
        self.member.tick(self.world.now)
        for effect in self.member.take_effects():
            self._perform(effect)
        self._check_verdict(self.member.verdict)
        if self.member.leaving and not self.member.alive and not self._concludes():
            self.world.leave(self)
            return
        now = self.world.now
        if self.member.report_due(now):
            self._send(self.member.make_report(now))
        self._wake_token += 1
        due = min(self.member.next_report_at(), self.member.stop_at())
        self.world.at(max(0.0, due - now), self._wake, self._wake_token)

    def _concludes(self) -> bool:
        """Worker 0 stays for the others' ends, and for the verdict, for as long as its pod may."""
        if self.coordinator is None or not self.coordinator.busy:
            return False
        if self.leave_by is None:
            self.leave_by = self.world.now + self.world.scenario.save_seconds
        return self.world.now < self.leave_by

    def _wake(self, token: int) -> None:
        if token == self._wake_token and not self._postponed(self._wake, token):
            self.pump()

    def _postponed(self, call: Callable[..., None], *args: Any) -> bool:
        """A process that sleeps does everything later."""
        if self.dead:
            return True
        if self.asleep_until > self.world.now:
            self.world.at(self.asleep_until - self.world.now, call, *args)
            return True
        return False

    def _perform(self, effect: me.MemberEffect) -> None:
        if isinstance(effect, me.RememberRound):
            self.pod.round = max(self.pod.round, effect.number)
        elif isinstance(effect, me.StartRanks):
            self.world.start_ranks(self, effect.order)
        elif isinstance(effect, me.StopRanks):
            self._check_stop(effect)
            delay = self.world.rng.choice((0.05, 1.0, 5.0)) if effect.grace_seconds else 0.02
            self.world.at(delay, self.end_ranks, effect.round)
        elif isinstance(effect, me.AskRanks):
            self.world.ask_ranks(self, effect)
        elif self.coordinator is None:
            self.keep_marker(dict(effect.document))

    def _check_stop(self, effect: me.StopRanks) -> None:
        """Only the deadline, the verdict or another pod in this place ends ranks that save."""
        member, world = self.member, self.world
        told = member.verdict is not None or member.superseded
        rivals = world.had_zombies or world.forgot_rounds
        if effect.grace_seconds and member._asked and not told and not rivals:
            raise Violation(f"{self.pod.uid} stops ranks that save")

    def keep_marker(self, document: dict[str, Any]) -> None:
        """The verdict goes to the emptyDir."""
        self.world.check_document(document)
        if self.pod.marker is not None and self.pod.marker != document:
            raise Violation(f"the marker of {self.pod.uid} changes: {self.pod.marker} to {document}")
        self.pod.marker = document

    def _check_verdict(self, document: Any) -> None:
        if self.told is not None and document != self.told:
            raise Violation(f"the verdict of {self.pod.uid} changes: {self.told} to {document}")
        self.told = document

    def fail_rank(self, round_id: RoundId, failure: RankFailure) -> None:
        """A rank ends badly by itself; after it was asked to end that is no failure."""
        if self.member.state == m.STOPPING:
            return
        if self.ranks == round_id and not self._postponed(self.fail_rank, round_id, failure):
            self.member.rank_failed(round_id, failure, self.world.now)
            self.pump()

    def end_ranks(self, round_id: RoundId) -> None:
        """The last rank here has ended, after a stop."""
        if not self._postponed(self.end_ranks, round_id) and self.ranks == round_id:
            self.ranks = None
            self.member.ranks_ended(round_id, clean=self.world.rng.random() < 0.3)
            self.pump()

    def yield_ranks(self, round_id: RoundId, *, clean: bool) -> None:
        """The ranks here have saved and end, as they were asked to."""
        if not self._postponed(partial(self.yield_ranks, clean=clean), round_id) and self.ranks == round_id:
            self._end_well(round_id, clean=clean, finished=False)

    def finish_ranks(self, round_id: RoundId) -> None:
        """All ranks here end with code 0 by themselves."""
        if not self._postponed(self.finish_ranks, round_id) and self.ranks == round_id:
            self._end_well(round_id, clean=True, finished=self.worker == 0)

    def _end_well(self, round_id: RoundId, *, clean: bool, finished: bool) -> None:
        self.ranks = None
        self.member.ranks_ended(round_id, clean=clean, finished=finished)
        truth = self.world.rounds[round_id]
        if self.member._outcome in (m.SUCCESS, m.YIELDED):
            truth.succeeded.add(self.worker)
            truth.finished = truth.finished or finished
        if self.member._outcome == m.YIELDED:
            truth.yielded.add(self.worker)
        self.pump()

    def ranks_up(self, round_id: RoundId) -> None:
        """All ranks here have been started."""
        if not self._postponed(self.ranks_up, round_id):
            self.member.ranks_started(round_id)
            self.pump()

    def sigterm(self) -> None:
        """The kubelet asks this pod to end."""
        if not self._postponed(self.sigterm):
            self.member.request_stop(self.world.now)
            self.world.at(self.world.scenario.save_seconds + 6, self._check_left, self.world.now)
            self.world.at(3.0, self._ask_alone)
            self.pump()

    def _check_left(self, asked_at: float) -> None:
        """The kubelet kills what is left, and nothing is told any more."""
        if not self.dead and self.ranks is not None and self.asleep_until < asked_at:
            raise Violation(f"ranks of {self.pod.uid} outlive the deadline")

    def _ask_alone(self) -> None:
        if not self._postponed(self._ask_alone):
            self.member.ask_alone()
            self.pump()

    # Messages.

    def _send(self, report: Report) -> None:
        if self.coordinator is not None:
            self.hear_report(report, self)
            return
        stale = self.world.now - self._connected_at > self.world.scenario.connection_seconds
        if self._connection is None or self._connection.dead or stale:
            self._connection, self._connected_at = self.world.resolve(), self.world.now
        target = self._connection
        if target is not None:
            self.world.transmit(self, target, report, lambda message: target.hear_report(message, self))

    def hear_report(self, report: Report, sender: Launcher) -> None:
        """A report has reached this coordinator."""
        if self._postponed(self.hear_report, report, sender) or self.coordinator is None:
            return
        if report.identity in self.held:
            self._answer_held(report.identity)
        self.coordinator.receive(report, self.world.now)
        answer = self.coordinator.answer(report)
        if self.coordinator.urgent(answer, report):
            self._reply(answer, sender)
        else:
            self.held[report.identity] = (report, self.world.now + self.world.timing.period)
            self.world.launchers[report.identity] = sender
        self.pump_coordinator()

    def hear_answer(self, answer: Answer, target: Launcher) -> None:
        """An answer has reached this member."""
        if self._postponed(self.hear_answer, answer, target):
            return
        if answer.kind == m.ELSEWHERE and self._connection is target:
            self._connection = None
        self.member.receive(answer, self.world.now)
        self.pump()

    def _reply(self, answer: Answer, sender: Launcher) -> None:
        if sender is self:
            self.world.at(0.0, self.hear_answer, answer, self)
        else:
            self.world.transmit(self, sender, answer, lambda message: sender.hear_answer(message, self))

    # The coordinator.

    def _tick_coordinator(self) -> None:
        if self._postponed(self._tick_coordinator) or self.coordinator is None:
            return
        self.coordinator.tick(self.world.now)
        self.pump_coordinator()
        now = self.world.now
        for identity, (_report, deadline) in list(self.held.items()):
            if deadline <= now:
                self._answer_held(identity)
        self.world.at(0.5, self._tick_coordinator)

    def pump_coordinator(self) -> None:
        """Perform the coordinator's effects and answer those whose answer has become urgent."""
        coordinator = self.coordinator
        if coordinator is None or self.dead:
            return
        for effect in coordinator.take_effects():
            self._perform_coordinator(effect)
        if coordinator.revision == self._revision:
            return
        self._revision = coordinator.revision
        for identity, (report, _deadline) in list(self.held.items()):
            if coordinator.urgent(coordinator.answer(report), report):
                self._answer_held(identity)

    def _answer_held(self, identity: Identity) -> None:
        if self.coordinator is not None:
            report, _deadline = self.held.pop(identity)
            self._reply(self.coordinator.answer(report), self.world.launchers[identity])

    def _perform_coordinator(self, effect: co.CoordinatorEffect) -> None:
        rng = self.world.rng
        if isinstance(effect, co.PrepareRound):
            self.world.at(rng.choice((0.01, 0.3, 3.0)), self._write_round, effect.above)
        elif isinstance(effect, co.RoundOpened):
            if self.coordinator is not None and (self.coordinator.verdict or self.pod.marker):
                raise Violation("a round opens after the verdict")
        elif isinstance(effect, co.Publish):
            self.world.at(rng.choice((0.01, 0.3, 2.0)), self._write_result, effect.decision)

    def _write_round(self, above: int) -> None:
        if self._postponed(self._write_round, above) or self.coordinator is None:
            return
        storage, rng = self.world.storage, self.world.rng
        number = max(above, storage.round) + 1
        if self.world.scenario.storage:
            storage.round = number
        self.pod.round = max(self.pod.round, number)
        if storage.result is not None:
            self.coordinator.adopt(storage.result)
            self.pump_coordinator()
        elif self.world.in_faults() and rng.random() < 0.05:
            self.coordinator.prepare_failed(self.world.now)
        else:
            self.world.at(rng.choice((0.0, 0.2)), self._round_written, number)

    def _round_written(self, number: int) -> None:
        if not self._postponed(self._round_written, number) and self.coordinator is not None:
            self.coordinator.round_prepared(number, master_port=29500, now=self.world.now)
            self.pump_coordinator()

    def _write_result(self, decision: Decision) -> None:
        if self._postponed(self._write_result, decision) or self.coordinator is None:
            return
        storage = self.world.storage
        document = storage.result or decision.document
        if document is None and storage.round > decision.round:
            self.coordinator.withdraw()
            self.pump_coordinator()
            return
        if document is None:
            document = {
                "jobUid": JOB,
                "round": decision.round,
                "outcome": decision.outcome,
                "failures": decision.failures,
                "failure": decision.failure,
                "model": None,
                "metrics": {},
            }
        if decision.outcome == "Succeeded" and self.world.scenario.storage:
            self.world.check_document(dict(document))
            storage.result = dict(document)
        self.world.at(self.world.rng.choice((0.0, 0.3)), self._write_marker, dict(document))

    def _write_marker(self, document: dict[str, Any]) -> None:
        if self._postponed(self._write_marker, document) or self.coordinator is None:
            return
        self.keep_marker(document)
        self.world.see_published(self, document)
        self.coordinator.published(document)
        self.pump_coordinator()
        self.world.at(2.0, self.world.crash, self, 1.0)


class World:
    """One history: runs from a seed to its end, or to a violation."""

    def __init__(self, scenario: Scenario, rng: random.Random) -> None:
        self.scenario = scenario
        self.rng = rng
        self.now = 0.0
        self.timing = Timing.for_workers(scenario.workers)
        self.storage = Storage()
        self.rounds: dict[RoundId, RoundTruth] = {}
        self.current: dict[int, Pod] = {}
        self.running: dict[str, Launcher] = {}
        self.launchers: dict[Identity, Launcher] = {}
        self.official: dict[str, Any] | None = None
        self.had_zombies = False
        # Without storage a replaced worker 0 does not know of a round whose order is still on its way.
        # Nothing is lost by that (its member cannot obey the next order, and the round after it is sound),
        # but ranks of two rounds are then live in different workers for a moment.
        self.forgot_rounds = False
        self._zombies: set[str] = set()
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self._pods = 0
        for worker in range(scenario.workers):
            self._make_pod(worker, delay=rng.uniform(0, 2))
        self._schedule_faults()
        if scenario.zombies:
            self.at(scenario.quiet_at, self._kill_zombies)

    def at(self, delay: float, call: Callable[..., None], *args: Any) -> None:
        """Calls `call(*args)` after `delay` simulated seconds."""
        self._count += 1
        heapq.heappush(self._events, (self.now + delay, self._count, call, args))

    def run(self) -> str:
        """Runs to the end; returns the verdict's outcome. Raises Violation, also where it never ends."""
        steps = 0
        while self._events:
            time, _count, call, args = heapq.heappop(self._events)
            if time > self.scenario.deadline:
                break
            self.now = time
            call(*args)
            steps += 1
            if steps > MAX_STEPS_A_WORKER * self.scenario.workers:
                raise Violation(f"messages without end: {steps} steps in {self.now:.0f} s")
            if steps % 32 == 0 and self.now > self.scenario.quiet_at and self._ended():
                assert self.official is not None
                return str(self.official["outcome"])
        raise Violation(
            f"no end {self.scenario.deadline - self.scenario.quiet_at:.0f} s after the last fault"
        )

    def in_faults(self) -> bool:
        """Whether faults still happen."""
        return self.now < self.scenario.quiet_at

    def _ended(self) -> bool:
        if self.official is None:
            return False
        for pod in self.current.values():
            launcher = self.running.get(pod.uid)
            if launcher is None or launcher.ranks is not None or launcher.member.verdict != self.official:
                return False
        return True

    # Pods.

    def _make_pod(self, worker: int, delay: float) -> None:
        if worker == 0 and worker in self.current and not self.scenario.storage:
            self.forgot_rounds = True
        self._pods += 1
        skew = self.rng.uniform(-1, 1) * self.scenario.clock_skew
        pod = Pod(uid=f"pod-{worker}-{self._pods}", worker=worker, skew=skew)
        self.current[worker] = pod
        self.at(delay, self._start, pod)

    def _start(self, pod: Pod) -> None:
        zombie = pod.uid in self._zombies and not self.in_faults()
        if pod.uid in self.running or zombie or (self.current[pod.worker] is not pod and not zombie):
            return
        launcher = Launcher(self, pod)
        self.running[pod.uid] = launcher
        self.launchers[launcher.member.identity] = launcher
        launcher.start()

    def kill(self, launcher: Launcher) -> None:
        """The process and its ranks are gone."""
        launcher.dead = True
        launcher.ranks = None
        if self.running.get(launcher.pod.uid) is launcher:
            del self.running[launcher.pod.uid]

    def crash(self, launcher: Launcher, delay: float) -> None:
        """The container ends and is started again, with the same emptyDir."""
        if not launcher.dead:
            self.kill(launcher)
            self.at(delay, self._start, launcher.pod)

    def replace(self, worker: int, *, zombie: bool) -> None:
        """Another pod takes the worker's name. As a zombie the old one lives on, on a node that is cut
        off."""
        old = self.running.get(self.current[worker].uid)
        if zombie and old is not None:
            self.had_zombies = True
            self._zombies.add(old.pod.uid)
        elif old is not None:
            self.kill(old)
        self._make_pod(worker, delay=self.rng.uniform(0.3, 4))

    def leave(self, launcher: Launcher) -> None:
        """A launcher that was asked to stop has exited: another pod comes, or another start."""
        self.kill(launcher)
        if self.current[launcher.worker] is not launcher.pod:
            return
        if not self._may_replace(launcher):
            self.at(1.0, self._start, launcher.pod)
        else:
            self._make_pod(launcher.worker, delay=self.rng.uniform(0.3, 4))

    def _kill_zombies(self) -> None:
        for uid in self._zombies:
            if uid in self.running:
                self.kill(self.running[uid])

    def resolve(self) -> Launcher | None:
        """What worker 0's name leads to: the pod, or while faults last one that was."""
        running = [x for x in self.running.values() if x.worker == 0]
        if not self.in_faults() or self.rng.random() < 0.5:
            running = [x for x in running if x.pod is self.current[0]]
        return self.rng.choice(running) if running else None

    # Faults.

    def _schedule_faults(self) -> None:
        time = self.rng.expovariate(self.scenario.fault_rate)
        while time < self.scenario.quiet_at:
            self.at(time, self._fault)
            time += self.rng.expovariate(self.scenario.fault_rate)

    def _fault(self) -> None:
        rng = self.rng
        worker = 0 if rng.random() < self.scenario.rivals else rng.randrange(self.scenario.workers)
        launcher = self.running.get(self.current[worker].uid)
        kind = rng.choice(FAULTS)
        if kind == "drain":
            self._drain()
            return
        if launcher is None or (kind in ("replace", "zombie", "sigterm") and not self._may_replace(launcher)):
            return
        if kind == "crash":
            self.crash(launcher, rng.choice((0.3, 2.0, 12.0)))
        elif kind == "sigterm":
            launcher.sigterm()
        elif kind == "cut":
            launcher.cut_until = self.now + rng.uniform(1, 20)
        elif kind == "sleep":
            launcher.asleep_until = self.now + rng.uniform(0.5, 20)
        else:
            self.replace(worker, zombie=kind == "zombie" and self.scenario.zombies)

    def _drain(self) -> None:
        """All pods are asked to end in one moment, as by a suspend."""
        for pod in list(self.current.values()):
            launcher = self.running.get(pod.uid)
            if launcher is not None and self._may_replace(launcher):
                self.at(self.rng.uniform(0, 0.5), launcher.sigterm)

    def _may_replace(self, launcher: Launcher) -> bool:
        """A verdict that only one pod knows is lost with that pod, as the design says. Not tried."""
        if launcher.pod.marker is None and launcher.member.verdict is None:
            return self.official is None or launcher.worker != 0
        if self.storage.result is not None:
            return True
        knowing = [p for p in self.current.values() if p.marker is not None and p is not launcher.pod]
        return len(knowing) > 0

    # Ranks.

    def start_ranks(self, launcher: Launcher, order: Order) -> None:
        """The launcher starts its ranks: here the invariants of rounds are checked."""
        self._check_start(launcher, order)
        round_id = order.round
        launcher.pod.highest_started = round_id.number
        launcher.ranks = round_id
        launcher.begun_at = self.now + self.rng.choice((0.0, 1.0))
        truth = self.rounds.setdefault(round_id, RoundTruth(order))
        truth.started[launcher.worker] = launcher
        self.at(self.rng.uniform(0.05, 0.5), launcher.ranks_up, round_id)
        if self.in_faults() and self.rng.random() < self.scenario.rank_failure:
            self.at(self.rng.uniform(0.1, self.scenario.run_seconds), self._fail, launcher, round_id, False)
        if len(truth.started) == self.scenario.workers:
            for peer in truth.started.values():
                self.at(self.scenario.run_seconds + self.rng.random(), peer.finish_ranks, round_id)

    def ask_ranks(self, launcher: Launcher, effect: me.AskRanks) -> None:
        """The launcher asks its ranks to save. Those of a training agree on it, whoever was asked; those of a
        script end each by itself; some do not look."""
        truth = self.rounds[effect.round]
        peers = list(truth.started.values()) if self.rng.random() < 0.5 else [launcher]
        if effect.alone and launcher.member.leaving is False:
            raise Violation(f"{launcher.pod.uid} asks its ranks alone and does not leave")
        for peer in peers:
            if self.rng.random() >= self.scenario.stubborn:
                clean = self.rng.random() < 0.5
                self.at(self.rng.uniform(0.01, 4), partial(peer.yield_ranks, clean=clean), effect.round)

    def _check_start(self, launcher: Launcher, order: Order) -> None:
        number = order.round.number
        if launcher.ranks is not None:
            raise Violation(f"{launcher.pod.uid} starts {number} while {launcher.ranks.number} is live there")
        if number <= launcher.pod.highest_started:
            raise Violation(f"{launcher.pod.uid} starts {number} after {launcher.pod.highest_started}")
        if launcher.pod.marker is not None or launcher.member.verdict is not None:
            raise Violation(f"{launcher.pod.uid} starts round {number} after the verdict")
        if self.had_zombies or self.forgot_rounds:
            return
        for other in self.running.values():
            if other.ranks is not None and other.ranks != order.round:
                raise Violation(f"rounds {other.ranks.number} and {number} are live at once")

    def _fail(self, launcher: Launcher, round_id: RoundId, consequence: bool) -> None:
        if launcher.dead or launcher.ranks != round_id:
            return
        rng = self.rng
        code: int | None = rng.choice((1, 1, 75, None))
        if rng.random() < self.scenario.user_error and not consequence:
            code = 65
        failure = RankFailure(
            worker=launcher.worker,
            rank=launcher.worker,
            exit_code=code,
            signal=9 if code is None else None,
            message="Connection closed by peer" if consequence else "RuntimeError: boom",
            time=EPOCH + self.now,
            consequence=consequence,
        )
        launcher.fail_rank(round_id, failure)
        for peer in self.rounds[round_id].started.values():
            if rng.random() < 0.5 and not consequence:
                self.at(rng.uniform(0.01, 1), self._fail, peer, round_id, True)

    # Verdicts.

    def check_document(self, document: dict[str, Any]) -> None:
        """A success is the success of all N workers in one round."""
        if document["outcome"] != "Succeeded":
            return
        number = document["round"]
        rounds = [truth for round_id, truth in self.rounds.items() if round_id.number == number]
        whole = [truth for truth in rounds if len(truth.succeeded) == self.scenario.workers]
        if not whole:
            raise Violation(f"success of round {number} lacks a worker")
        if all(truth.yielded and not truth.finished for truth in whole):
            raise Violation(f"success of round {number}, which was cut short")

    def see_published(self, launcher: Launcher, document: dict[str, Any]) -> None:
        """What the operator sees: the document of the pod that is worker 0."""
        if self.current[0] is not launcher.pod:
            return
        if self.official is not None and self.official != document:
            raise Violation(f"the verdict changes: {self.official} to {document}")
        self.official = document

    # The network.

    def transmit(
        self, source: Launcher, target: Launcher, message: Any, deliver: Callable[[Any], None]
    ) -> None:
        """Sends a message that may be lost, late, or repeated."""
        rng, scenario = self.rng, self.scenario
        if source.cut_until > self.now or target.cut_until > self.now:
            return
        faulty = self.in_faults()
        if faulty and rng.random() < scenario.loss:
            return
        if scenario.codec:
            payload = message.to_bytes()
            read = m.read_report if isinstance(message, Report) else m.read_answer
            if read(payload) != message:
                raise Violation("a message changes on its way")
        self.at(self._delay(faulty), deliver, message)
        if faulty and rng.random() < scenario.repeat:
            self.at(self._delay(faulty), deliver, message)

    def _delay(self, faulty: bool) -> float:
        if faulty and self.rng.random() < self.scenario.late:
            return self.rng.uniform(0.1, 15)
        return self.rng.uniform(0.001, 0.02)
