"""Drives the member: its effects become processes and files, its reports go out, answers come in."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Optional

from ..gang import member as gang
from ..gang.identity import RoundId
from ..gang.member import Member
from ..gang.messages import ELSEWHERE, Answer, Order, RankFailure, Refusal
from ..gang.messages import SUPERSEDED as SUPERSEDED_ANSWER
from ..gang.timing import save_seconds
from ..plan import PlanError
from .causes import to_failure
from .client import Transport, Unreachable
from .layout import TEXT_LIMIT, Layout
from .results import StateDir
from .settings import Settings
from .supervisor import RankExit, Round, Supervisor
from .tasks import Tasks
from .trouble import SUPERSEDED, Trouble, explain_storage, trouble
from .waiting import event_within, within

RETRY_SECONDS = 1.0
COMPLAIN_EVERY_SECONDS = 30.0
PATIENCE_SECONDS = 10.0
# How long the gang's word may take until the ranks here are asked without it.
ALONE_SECONDS = 3.0
LAST_REPORT_SECONDS = 0.5

NO_PLACE = {
    SUPERSEDED_ANSWER: "a pod that started later has this worker's place",
    ELSEWHERE: "what answers as worker 0 says that a later start of worker 0 is about, which is not found",
}

Say = Callable[[str], None]


class MemberLoop:
    """One task that does what the member wants, in order, until it has left.

    `supervisor` is set after construction, because it calls back `rank_ended`.
    """

    def __init__(
        self,
        member: Member,
        *,
        settings: Settings,
        layout: Layout,
        state: StateDir,
        transport: Transport,
        tasks: Tasks,
        say: Say,
    ) -> None:
        self.member = member
        self.supervisor: Optional[Supervisor] = None
        self._settings = settings
        self._layout = layout
        self._state = state
        self._transport = transport
        self._spawn = tasks.spawn
        self._say = say
        self._wake = asyncio.Event()
        self._exchange: Optional[asyncio.Task[Answer]] = None
        self._retry_at = 0.0
        self._complained_at = time.monotonic() - COMPLAIN_EVERY_SECONDS + PATIENCE_SECONDS
        self._unreachable: Optional[Trouble] = None
        self._unwritable: Optional[Trouble] = None

    @property
    def trouble(self) -> Optional[Trouble]:
        """What keeps this worker from its place in the gang, as far as it can tell itself."""
        return self._unwritable or self._unreachable

    # The loop.

    async def run(self) -> None:
        """Runs until the member was asked to stop and has no ranks any more."""
        while not (self.member.leaving and not self.member.alive):
            self._wake.clear()
            self.member.tick(time.monotonic())
            await self._perform_effects()
            self._collect_answer()
            await self._report_if_due()
            await self._sleep()
        await self._report_once_more()
        self._transport.close()

    async def _sleep(self) -> None:
        """Until something happens, or something is due."""
        due = max(self.member.next_report_at(), self._retry_at)
        if self.member.changed:
            due = self._retry_at
        elif self._exchange is not None:
            due = float("inf")  # The exchange ends by itself, and wakes us.
        until = min(due, self.member.stop_at())
        await event_within(until - time.monotonic(), self._wake)

    def _waiting_to_retry(self) -> bool:
        return time.monotonic() < self._retry_at

    def wake(self) -> None:
        """Something has happened to the member."""
        self._wake.set()

    # Reports.

    async def _report_if_due(self) -> None:
        now = time.monotonic()
        if not self.member.report_due(now) or self._waiting_to_retry():
            return
        if self._exchange is not None:
            if not self.member.changed:
                return
            # The answer to the last report may be held: what has changed does not wait for it.
            await self._cancel_exchange()
        report = self.member.make_report(now)
        self._exchange = asyncio.ensure_future(self._transport.exchange(report))
        self._exchange.add_done_callback(lambda _task: self.wake())

    async def _cancel_exchange(self) -> None:
        """Gone only when it has let go of its connection."""
        task, self._exchange = self._exchange, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _collect_answer(self) -> None:
        task = self._exchange
        if task is None or not task.done():
            return
        self._exchange = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._take_answer(task.result())
            self._complained_at = time.monotonic() - COMPLAIN_EVERY_SECONDS + PATIENCE_SECONDS
            self.wake()
        elif isinstance(error, Unreachable):
            self._retry_at = time.monotonic() + RETRY_SECONDS
            self._unreachable = trouble(error.reason, str(error), before=self._unreachable)
            self._complain(error)
        else:
            raise error

    def _take_answer(self, answer: Answer) -> None:
        self.member.receive(answer, time.monotonic())
        text = NO_PLACE.get(answer.kind) if self._settings.worker != 0 or self.member.superseded else None
        self._unreachable = trouble(SUPERSEDED, text, before=self._unreachable) if text else None

    def _complain(self, error: Unreachable) -> None:
        """Says it now and then. Workers start in any order, so the first seconds are no news; after the
        verdict worker 0 is of no interest."""
        now = time.monotonic()
        if self.member.verdict is not None:
            return
        if now - self._complained_at >= COMPLAIN_EVERY_SECONDS:
            self._complained_at = now
            self._say(f"worker 0 does not answer yet: {error}; still trying")

    async def _report_once_more(self) -> None:
        """What the gang should know before this launcher is gone; nobody waits for it for long."""
        if self.member.verdict is not None:
            return
        await self._cancel_exchange()
        with contextlib.suppress(Unreachable, asyncio.TimeoutError):
            report = self.member.make_report(time.monotonic())
            await within(LAST_REPORT_SECONDS, self._transport.exchange(report))

    # Effects.

    async def _perform_effects(self) -> None:
        for effect in self.member.take_effects():
            if isinstance(effect, gang.RememberRound):
                await self._remember_round(effect.number)
            elif isinstance(effect, gang.StartRanks):
                await self._start(effect.order)
            elif isinstance(effect, gang.StopRanks):
                self._spawn(self._stop(effect))
            elif isinstance(effect, gang.AskRanks):
                await self._ask(effect)
            else:
                await self._keep_verdict(effect)

    async def _remember_round(self, number: int) -> None:
        try:
            await asyncio.to_thread(self._state.write_round, number)
        except OSError as error:
            reason, message = explain_storage(error, state_dir=self._state.path, job_dir=None)
            self._unwritable = trouble(reason, message, before=self._unwritable)
            self._say(f"the number of round {number} is not kept: {message}")
        else:
            self._unwritable = None

    async def _keep_verdict(self, effect: gang.KeepVerdict) -> None:
        if self._settings.worker == 0:
            return  # The coordinator's side has written it, before it told anyone.
        try:
            await asyncio.to_thread(self._state.write_marker, effect.document)
        except OSError as error:
            self._say(f"the verdict cannot be kept in {self._state.path}: {error}")
        outcome = str(effect.document["outcome"])
        self._say(f"the job is over: {outcome}. This worker waits to be deleted")

    async def _start(self, order: Order) -> None:
        assert self.supervisor is not None
        settings = self._settings
        try:
            plan = self._layout.plan_for(order.ranks_per_worker)
            self._layout.plan = plan
            self.member.cpu = self._layout.cpu()
            await self.supervisor.start(self._round(order), plan=plan)
        except PlanError as error:
            self.member.refuse(Refusal("PlanImpossible", str(error)[:TEXT_LIMIT]))
            self.member.ranks_ended(order.round, clean=False)
            return
        except OSError as error:
            rank = settings.worker * order.ranks_per_worker
            failure = _start_failure(error, worker=settings.worker, rank=rank)
            self.member.rank_failed(order.round, failure, time.monotonic())
            self.member.ranks_ended(order.round, clean=False)
            return
        self.member.ranks_started(order.round)
        self._spawn(self._watch(order.round))

    def _round(self, order: Order) -> Round:
        settings = self._settings
        return Round(
            number=order.round.number,
            worker=settings.worker,
            workers=settings.workers,
            ranks_per_worker=order.ranks_per_worker,
            master_addr=order.master_addr,
            master_port=order.master_port,
            run_id=settings.job_uid,
            restart_count=order.round.number - 1,
            max_restarts=settings.backoff_limit,
        )

    async def _watch(self, round_id: RoundId) -> None:
        assert self.supervisor is not None
        exits = await self.supervisor.wait()
        self.member.ranks_ended(
            round_id,
            clean=all(ended.succeeded for ended in exits),
            finished=self._settings.worker == 0 and self.supervisor.files.has_metrics(),
        )
        self.wake()

    async def _stop(self, effect: gang.StopRanks) -> None:
        if self.supervisor is None or self.member.round != effect.round:
            return
        if effect.grace_seconds == 0:
            self._say("the time to save is over: ranks that still run are killed")
        await self.supervisor.stop(grace_seconds=effect.grace_seconds)

    async def _ask(self, effect: gang.AskRanks) -> None:
        """The built-in training looks for the stop file between steps. A script gets SIGTERM, but only with
        the gang's word: in every rank of every worker, or in none."""
        supervisor, settings = self.supervisor, self._settings
        assert supervisor is not None
        seconds = save_seconds(settings.grace_period_seconds)
        self._say(f"the ranks are asked to save and end; they have {seconds:.0f} s")
        try:
            await asyncio.to_thread(supervisor.request_stop)
        except OSError as error:
            self._say(f"the ranks are not asked: {error}")
        if settings.training_file is None and not effect.alone:
            supervisor.terminate(group=False)

    # What happens.

    def rank_ended(self, ended: RankExit) -> None:
        """The supervisor's word that a rank has ended."""
        training = self._settings.training_file is not None
        failure = to_failure(ended, worker=self._settings.worker, training=training)
        round_id = self.member.round
        if round_id is None or round_id.number != ended.round:
            return
        if failure is not None:
            self.member.rank_failed(round_id, failure, time.monotonic())
        elif ended.succeeded:
            self.member.rank_succeeded(round_id, ended.rank)
        self.wake()

    async def leave(self) -> None:
        """SIGTERM. The gang is told, so that the ranks of all workers save and end together and none of them
        looks like a failure; if nobody answers, those here are asked alone."""
        self.member.request_stop(time.monotonic())
        self.wake()
        await asyncio.sleep(ALONE_SECONDS)
        self.member.ask_alone()
        self.wake()


def _start_failure(error: OSError, *, worker: int, rank: int) -> RankFailure:
    text = f"the ranks could not be started: {error}"[:TEXT_LIMIT]
    return RankFailure(
        worker=worker, rank=rank, exit_code=1, signal=None, message=text, time=time.time(), consequence=False
    )
