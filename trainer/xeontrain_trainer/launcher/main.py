"""Puts the launcher together: settings, machine, port, gang, ranks, verdict."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from ..contract import EXIT_BAD_CONFIG
from ..gang.coordinator import Coordinator
from ..gang.identity import Identity
from ..gang.member import Member
from ..gang.timing import Timing
from ..plan import agree_ranks
from .client import HttpTransport, LocalTransport, Transport
from .coordinator_loop import CoordinatorLoop
from .layout import Layout
from .logs import RoundLogs
from .member_loop import MemberLoop
from .placement import Placement
from .progress import ProgressTail
from .rankenv import RankFiles
from .results import JobDir, StateDir, write_termination
from .server import bind_host, make_server
from .settings import Settings, SettingsError
from .status import metrics_text, status_document
from .supervisor import Supervisor, reap_orphans
from .tasks import Tasks

LOOK_AGAIN_SECONDS = 60.0
TAIL_BYTES = 65536
WAITS = "This worker waits to be deleted"
USAGE = "usage: python -m xeontrain_trainer.launcher -- COMMAND [ARGUMENT...]"


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """The launcher's exit code: 0 after a verdict or SIGTERM, 78 where it was called wrongly, 1 where its
    port or its state folder cannot be used."""
    command = list(argv[1:]) if argv and argv[0] == "--" else []
    if not command:
        print(USAGE, file=sys.stderr)
        return EXIT_BAD_CONFIG
    try:
        settings = Settings.from_environ(environ)
    except SettingsError as error:
        print(f"xeontrain: {error}", file=sys.stderr)
        return EXIT_BAD_CONFIG
    # Not asyncio.run, which waits for threads: one may hang in a storage that is away, and SIGTERM has a
    # deadline.
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(_run(settings, command=command, environ=environ))
    except OSError as error:
        print(f"xeontrain: {error}", file=sys.stderr)
        return 1
    finally:
        loop.close()


async def _run(settings: Settings, *, command: Sequence[str], environ: Mapping[str, str]) -> int:
    launcher = Launcher(settings, command=command, environ=environ)
    return await launcher.run()


class Launcher:
    """One start of the container. It is parked from the start where there is a marker or it is told to."""

    def __init__(self, settings: Settings, *, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self.settings = settings
        self._state = StateDir(settings.state_dir)
        self._job_dir = JobDir(settings.job_dir)
        self._logs = RoundLogs(os.path.join(settings.state_dir, "logs"))
        self._layout = Layout(settings, environ=environ)
        self._marker = self._state.read_marker(job_uid=settings.job_uid)
        self._timing = Timing.for_workers(settings.workers)
        self._tasks = Tasks()
        identity = Identity(pod_uid=settings.pod_uid, start=self._state.next_start(), started_at=time.time())
        self._coordinating = self._make_coordinator(identity) if settings.worker == 0 else None
        self._member_loop = MemberLoop(
            self._make_member(identity),
            settings=settings,
            layout=self._layout,
            state=self._state,
            transport=self._make_transport(),
            tasks=self._tasks,
            say=self.say,
        )
        self._supervisor = Supervisor(
            command,
            state_dir=settings.state_dir,
            environ=environ,
            logs=self._logs,
            on_exit=self._member_loop.rank_ended,
        )
        self._member_loop.supervisor = self._supervisor
        self._placement = Placement(self._layout, supervisor=self._supervisor, say=self.say)
        self._progress = ProgressTail(self._supervisor.files.progress)

    def say(self, text: str) -> None:
        """A line of the launcher's own: to `kubectl logs` and to the worker's log."""
        line = f"xeontrain: {text}"
        with contextlib.suppress(OSError, ValueError):
            print(line, flush=True)
        self._logs.note(line)

    # Parts.

    def _make_member(self, identity: Identity) -> Member:
        member = Member(
            job_uid=self.settings.job_uid,
            worker=self.settings.worker,
            identity=identity,
            timing=self._timing,
            ranks=self._layout.ranks,
            highest=self._state.read_round(),
            verdict=self._marker,
            park_only=self.settings.park_only,
        )
        member.cpu = self._layout.cpu()
        if self._layout.refusal is not None and not self.settings.park_only:
            member.refuse(self._layout.refusal)
        return member

    def _make_coordinator(self, identity: Identity) -> CoordinatorLoop:
        settings = self.settings
        coordinator = Coordinator(
            job_uid=settings.job_uid,
            identity=identity,
            workers=settings.workers,
            timing=self._timing,
            agree_ranks=self._agree_ranks,
            master_addr=settings.pod_ip,
            backoff_limit=settings.backoff_limit,
            failures_counted=settings.failures_counted,
            highest=max(self._state.read_round(), self._job_dir.read_round()),
            verdict=self._marker,
        )
        return CoordinatorLoop(
            coordinator,
            settings=settings,
            timing=self._timing,
            state=self._state,
            job_dir=self._job_dir,
            metrics_file=RankFiles(settings.state_dir).metrics,
            tasks=self._tasks,
            say=self.say,
        )

    def _agree_ranks(self, reported: list[int]) -> int:
        settings = self.settings
        if settings.ranks_per_worker is not None:
            return settings.ranks_per_worker
        return agree_ranks(reported, workers=settings.workers, global_batch_size=settings.global_batch_size)

    def _make_transport(self) -> Transport:
        if self._coordinating is not None:
            return LocalTransport(self._coordinating.exchange)
        settings = self.settings
        return HttpTransport(
            host=settings.coordinator, port=settings.coordinator_port, hold_seconds=self._timing.period
        )

    # The run.

    async def run(self) -> int:
        """Serves until the verdict is published here, or SIGTERM."""
        settings = self.settings
        if self._marker is not None:
            # Before all else: killed without it, this start would leave an end that tells nothing.
            self._write_message(self._marker)
        server = make_server(
            self,
            job_uid=settings.job_uid,
            exchange=self._coordinating.exchange if self._coordinating else None,
            on_error=lambda error: self._tell_bug("a request could not be answered", error),
        )
        await server.start(host=bind_host(settings.pod_ip), port=settings.launcher_port)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stop)
        # What came while this process started (see __main__) comes now; ranks must not inherit the block.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
        self._tasks.spawn(reap_orphans())
        self._tasks.spawn(self._look_again())
        if settings.training_file is None:
            self._tasks.spawn(self._placement.run())
        self._greet()
        try:
            await self._live()
        except Exception as error:
            self._tell_bug("the launcher has failed and starts again", error)
            return 1
        finally:
            await self._tasks.close()
            await server.close()
            self._logs.close()
        return 0

    def _greet(self) -> None:
        settings = self.settings
        if self._marker is not None:
            self._say_again(self._marker)
        elif settings.park_only:
            self.say(f"the job is over. {WAITS}")
        else:
            job = f"{settings.job_namespace}/{settings.job_name}"
            self.say(f"job {job}, worker {settings.worker} of {settings.workers}")
            for line in self._layout.describe():
                self.say(line)
            self._look_for_result()

    def _look_for_result(self) -> None:
        """A pod replaced after success has an empty emptyDir; the job's folder tells it that all is done."""
        result = self._job_dir.read_result(job_uid=self.settings.job_uid)
        if result is not None and self._coordinating is not None:
            self.say("the job has succeeded already: its result is in storage")
            self._coordinating.coordinator.adopt(result)

    def _write_message(self, document: Mapping[str, Any]) -> None:
        """The kubelet takes the message of the latest end only."""
        try:
            write_termination(
                self.settings.termination_log, document, max_bytes=self.settings.termination_bytes
            )
        except OSError as error:
            self.say(f"{self.settings.termination_log} cannot be written: {error}")

    def _say_again(self, document: Mapping[str, Any]) -> None:
        """`kubectl logs` shows the latest container only."""
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.buffer.write(self._logs.tail(TAIL_BYTES))
            sys.stdout.buffer.flush()
            print(f"xeontrain: the job is over: {document['outcome']}. {WAITS}", flush=True)

    async def _live(self) -> None:
        """Until this worker has left, the verdict is published, or a part of it fails on a bug."""
        leaving = self._tasks.spawn(self._member_loop.run())
        ends: set[asyncio.Future[Any]] = {self._tasks.failed, leaving}
        coordinating = self._coordinating
        if coordinating is not None:
            self._tasks.spawn(coordinating.run())
            if self._marker is None:
                ends.add(self._tasks.spawn(self._until_published(coordinating)))
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        if leaving in done and coordinating is not None:
            await coordinating.conclude()

    async def _until_published(self, coordinating: CoordinatorLoop) -> None:
        """Until everybody has heard the verdict and no rank is left here."""
        await coordinating.published.wait()
        await coordinating.farewell()
        await self._supervisor.stop()

    def _stop(self) -> None:
        """SIGTERM."""
        self._tasks.spawn(self._member_loop.leave())

    async def _look_again(self) -> None:
        """Whether the CPUs are exclusive is judged again each minute; ranks follow a set that changes."""
        while True:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            await asyncio.to_thread(self._layout.look_again)
            if self._supervisor.alive and self._layout.follow() is not None:
                self._placement.look()
            self._member_loop.member.cpu = self._layout.cpu()

    def _tell_bug(self, what: str, error: BaseException) -> None:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.say(f"{what}; this is a bug:\n{text}")

    # What the port shows.

    def ready(self) -> Optional[str]:
        """Ready is a worker that has a place in the gang, or is parked."""
        member = self._member_loop.member
        if member.verdict is not None or self.settings.park_only or member.heard_lately(time.monotonic()):
            return None
        return "worker 0 has not answered yet"

    def status(self) -> dict[str, Any]:
        """The contract's `/status`."""
        coordinating = self._coordinating
        return status_document(
            self.settings,
            member=self._member_loop.member,
            coordinator=coordinating.coordinator if coordinating else None,
            cpu=self._layout.cpu(),
            warnings=self._layout.warnings,
            progress=self._progress.poll(),
        )

    def log(self, max_bytes: int) -> bytes:
        """The tail of the worker's log, over all rounds."""
        return self._logs.tail(max_bytes)

    def metrics(self) -> str:
        """Prometheus text."""
        return metrics_text(self.status(), ranks_alive=self._supervisor.alive)
