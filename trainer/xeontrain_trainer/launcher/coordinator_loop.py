"""Drives the coordinator: its effects become files and log lines, held answers are let go when there is
news."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ..gang import coordinator as gang
from ..gang.coordinator import Coordinator
from ..gang.messages import Answer, Report
from ..gang.timing import FAREWELL_SECONDS, Timing
from ..gang.verdict import SUCCEEDED, Decision
from .layout import count
from .results import JobDir, StateDir, fit_document, read_metrics, result_document, write_termination
from .settings import Settings
from .tasks import Tasks
from .trouble import (
    GIVE_UP_SECONDS,
    NOT_WRITABLE,
    GivenUpError,
    Trouble,
    explain_storage,
    trouble,
)
from .waiting import event_within, within

TICK_SECONDS = 0.5
RENDEZVOUS_PORTS = 100
RETRY_SECONDS = 2.0
# A write takes milliseconds; one that takes this long is one into a storage that is away.
HANG_SECONDS = 20.0
# How long a verdict waits for a disk: the whole gang waits for the verdict.
PUBLISH_SECONDS = 10.0
STRAGGLER_SECONDS = 60.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Prepared:
    """A round's number, written down, and a port that was free; or a result that another has left in
    storage."""

    number: int = 0
    master_port: int = 0
    result: Optional[Mapping[str, Any]] = None


class CoordinatorLoop:
    """Worker 0's side of the gang. `published` is set once the verdict is on disk and everybody may hear
    it."""

    def __init__(
        self,
        coordinator: Coordinator,
        *,
        settings: Settings,
        timing: Timing,
        state: StateDir,
        job_dir: JobDir,
        metrics_file: str,
        tasks: Tasks,
        say: Say,
    ) -> None:
        self.coordinator = coordinator
        self.published = asyncio.Event()
        self._settings = settings
        self._timing = timing
        self._state = state
        self._job_dir = job_dir
        self._metrics_file = metrics_file
        self._say = say
        self._news = asyncio.Event()
        self._revision = coordinator.revision
        self._spawn = tasks.spawn
        self.trouble: Optional[Trouble] = None
        self._tell_stragglers_at = STRAGGLER_SECONDS

    async def run(self) -> None:
        """Looks at the clock, for ever."""
        while True:
            self.coordinator.tick(time.monotonic())
            self.settle()
            self._tell_stragglers()
            await asyncio.sleep(TICK_SECONDS)

    def _tell_stragglers(self) -> None:
        """Says it after STRAGGLER_SECONDS, then at ever longer intervals: a script that hangs at its end
        looks like one that trains."""
        found = self.coordinator.stragglers()
        if found is None:
            self._tell_stragglers_at = STRAGGLER_SECONDS
        elif found.seconds >= self._tell_stragglers_at:
            self._tell_stragglers_at = 2 * found.seconds
            self._say(describe_stragglers(found))

    async def exchange(self, report: Report) -> Answer:
        """The answer to a report, held for at most a period while there is nothing to say."""
        coordinator = self.coordinator
        now = time.monotonic()
        coordinator.receive(report, now)
        self.settle()
        deadline = now + self._timing.period
        while True:
            answer = coordinator.answer(report)
            left = deadline - time.monotonic()
            if left <= 0 or coordinator.urgent(answer, report):
                return answer
            await event_within(left, self._news)

    async def farewell(self) -> None:
        """Returns when every member has heard the verdict, or after FAREWELL_SECONDS."""
        until = time.monotonic() + FAREWELL_SECONDS
        while time.monotonic() < until and not self.coordinator.all_have_heard():
            await asyncio.sleep(0.02)

    async def conclude(self, *, until: float) -> None:
        """Returns when no rank of any worker is alive and, where the round has succeeded after all, everybody
        has heard so; or at `until`, by the monotonic clock."""
        while time.monotonic() < until and self.coordinator.busy:
            await asyncio.sleep(0.02)
        if self.published.is_set():
            await self.farewell()

    def settle(self) -> None:
        """Does what the coordinator wants and lets go of answers that may have changed."""
        for effect in self.coordinator.take_effects():
            self._perform(effect)
        if self.coordinator.revision != self._revision:
            self._revision = self.coordinator.revision
            news, self._news = self._news, asyncio.Event()
            news.set()

    def _perform(self, effect: gang.CoordinatorEffect) -> None:
        if isinstance(effect, gang.PrepareRound):
            self._spawn(self._prepare(effect.above))
        elif isinstance(effect, gang.Publish):
            self._spawn(self._publish(effect.decision))
        elif isinstance(effect, gang.RoundOpened):
            self._say(describe_start(effect))
        else:
            self._say(
                describe_end(
                    effect, limit=self._settings.backoff_limit, total=self.coordinator.failures_counted
                )
            )

    # A round's number and port.

    async def _prepare(self, above: int) -> None:
        """Raises GivenUpError where neither number nor port is to be had for long."""
        try:
            prepared = await within(HANG_SECONDS, asyncio.to_thread(self._write_round, above))
        except (OSError, asyncio.TimeoutError) as error:
            self._note(error)
            self.coordinator.prepare_failed(time.monotonic())
            if self.trouble is not None and self.trouble.seconds >= GIVE_UP_SECONDS:
                raise GivenUpError(self.trouble) from error
        else:
            self.trouble = None
            if prepared.result is not None:
                self.coordinator.adopt(prepared.result)
            else:
                self.coordinator.round_prepared(
                    prepared.number, master_port=prepared.master_port, now=time.monotonic()
                )
        self.settle()

    def _note(self, error: BaseException) -> None:
        """Keeps what stands in the way for all to see, and says it once."""
        reason, message = self._explain(error)
        if self.trouble is None or self.trouble.message != message:
            self._say(f"{message}; trying again")
        self.trouble = trouble(reason, message, before=self.trouble)

    def _explain(self, error: BaseException) -> tuple[str, str]:
        job_dir = self._job_dir.path
        # From Python 3.11 on a time that is up is an OSError too; only the system's own has a number.
        if isinstance(error, OSError) and (error.errno is not None or error.args):
            return explain_storage(error, state_dir=self._state.path, job_dir=job_dir)
        where = f"spec.storage: {job_dir} does not answer. Ask who runs the storage"
        return NOT_WRITABLE, where if job_dir is not None else f"{self._state.path} does not answer"

    def _write_round(self, above: int) -> Prepared:
        """In this order: the number into storage, then a look for a result. Another coordinator that
        publishes looks for a newer number after it has written its result, so one of the two sees the
        other."""
        number = max(above, self._job_dir.read_round()) + 1
        self._job_dir.write_round(number)
        self._state.write_round(number)
        result = self._job_dir.read_result(job_uid=self._settings.job_uid)
        if result is not None:
            return Prepared(result=result)
        settings = self._settings
        port = find_port(settings.pod_ip, first=settings.master_port, round_number=number)
        return Prepared(number=number, master_port=port)

    # The verdict.

    async def _publish(self, decision: Decision) -> None:
        until = time.monotonic() + PUBLISH_SECONDS
        while True:
            try:
                document = await within(HANG_SECONDS, asyncio.to_thread(self._write_verdict, decision))
                break
            except (OSError, asyncio.TimeoutError) as error:
                self._note(error)
            if time.monotonic() >= until:
                self._tell_unkept(decision)
                return
            await asyncio.sleep(RETRY_SECONDS)
        if document is None:
            self._say("another launcher of worker 0 has opened a later round: this one stands back")
            self.coordinator.withdraw()
        else:
            self.coordinator.published(document)
            self.published.set()
        self.settle()

    def _tell_unkept(self, decision: Decision) -> None:
        """A verdict that cannot be kept on disk is told all the same, over the port and, best effort, in the
        termination message. This start of the container stays, for the next one would not know of it."""
        document = self._fit(decision.document or self._compose(decision, model=None))
        self._write_message(document)
        self._say("the verdict is told but not kept: this worker stays until it is deleted")
        self.coordinator.published(document)
        self.settle()

    def _write_verdict(self, decision: Decision) -> Optional[dict[str, Any]]:
        """Writes result.json, the marker, the termination message, in this order; the document that stands.

        None where storage shows that a newer coordinator has opened a later round: its word counts.
        """
        settings = self._settings
        stands = self._job_dir.read_result(job_uid=settings.job_uid) or decision.document
        if stands is None and self._job_dir.read_round() > decision.round:
            return None
        model = self._job_dir.model_path()
        document = self._fit(stands if stands is not None else self._compose(decision, model=model))
        if document["outcome"] == SUCCEEDED:
            self._keep_result(document)
        self._state.write_marker(document)
        self._write_message(document)
        return document

    def _write_message(self, document: Mapping[str, Any]) -> None:
        settings = self._settings
        try:
            write_termination(settings.termination_log, document, max_bytes=settings.termination_bytes)
        except OSError as error:
            self._say(f"{settings.termination_log} cannot be written: {error}")

    def _keep_result(self, document: Mapping[str, Any]) -> None:
        """Without it the job has still succeeded; only a pod lost in the next second would not know."""
        try:
            self._job_dir.write_result(document)
        except OSError as error:
            self._say(f"result.json cannot be written to {self._job_dir.path}: {error}")

    def _compose(self, decision: Decision, *, model: Optional[str]) -> dict[str, Any]:
        """`model`: where one lies in storage."""
        succeeded = decision.outcome == SUCCEEDED
        final = read_metrics(self._metrics_file)
        return result_document(
            job_uid=self._settings.job_uid,
            worker=self._settings.worker,
            round_number=decision.round,
            outcome=decision.outcome,
            metrics=final.metrics if succeeded else {},
            model=(final.model or model) if succeeded else None,
            failures=decision.failures,
            failure=decision.failure,
        )

    def _fit(self, document: Mapping[str, Any]) -> dict[str, Any]:
        fitted: dict[str, Any] = json.loads(
            fit_document(document, max_bytes=self._settings.termination_bytes)
        )
        return fitted


def find_port(host: str, *, first: int, round_number: int) -> int:
    """The first port of the rendezvous range that can be bound, from `first + (round - 1) mod 100` upward and
    round again. Raises OSError where none can."""
    start = (round_number - 1) % RENDEZVOUS_PORTS
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for offset in range(RENDEZVOUS_PORTS):
        port = first + (start + offset) % RENDEZVOUS_PORTS
        if port <= 65535 and _is_free(port, family=family):
            return port
    raise OSError(f"none of the ports {first} to {first + RENDEZVOUS_PORTS - 1} is free for the rendezvous")


def _is_free(port: int, *, family: socket.AddressFamily) -> bool:
    """As rank 0's store will bind it: on all addresses, with SO_REUSEADDR."""
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
            probe.listen(1)
        except OSError:
            return False
    return True


def describe_start(opened: gang.RoundOpened) -> str:
    """A round's start in one line."""
    order, workers = opened.order, opened.workers
    world, ranks = count(workers, "worker"), count(order.ranks_per_worker, "rank")
    return (
        f"round {order.round.number}: world size {workers * order.ranks_per_worker} ({world} x {ranks}), "
        f"rendezvous at {order.master_addr}:{order.master_port}"
    )


def describe_stragglers(found: gang.Stragglers) -> str:
    """Who still runs although others have ended well, in one line."""
    names = ", ".join(str(rank) for rank in found.ranks)
    more = f" and {found.count - len(found.ranks)} more" if found.count > len(found.ranks) else ""
    who = f"rank {names} still runs" if found.count == 1 else f"ranks {names}{more} still run"
    return (
        f"{who}; others have ended with success {found.seconds:.0f} s ago. The round ends with the last rank"
    )


def describe_end(ended: gang.RoundEnded, *, limit: int, total: int) -> str:
    """A round's end in one line."""
    record = ended.failure
    if record is None:
        why = {
            "lost": "a worker was lost or replaced, which is not counted as a failure",
            "interrupted": "a worker was asked to stop, which is not counted as a failure",
        }
        return f"round {ended.number} has ended: {why.get(ended.kind, ended.kind)}"
    cause = record.cause
    how = f"exit code {cause.exit_code}" if cause.signal is None else f"signal {cause.signal}"
    return (
        f"round {ended.number} has failed: rank {cause.rank} of worker {cause.worker}, {how}: "
        f"{cause.message or 'no message'} (failure {total}, backoffLimit {limit})"
    )
