"""Process 1 of a trainer pod: settings, signals, port, then its part in the gang, then the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional

from ..contract import ENV_TERMINATION_LOG, EXIT_BAD_CONFIG, EXIT_STORAGE
from ..gang.messages import Answer, Report
from ..gang.timing import save_seconds
from .assembly import Basis, Parts, assemble
from .coordinator_loop import CoordinatorLoop
from .kubeflow import KubeflowPort
from .layout import Layout
from .logs import RoundLogs
from .results import JobDir, StateDir, write_sentence, write_termination
from .server import NotReadyError, bind_host, make_server
from .settings import Settings, SettingsError
from .start import Found, find
from .status import metrics_text, starting_document, status_document
from .supervisor import reap_orphans
from .tasks import Tasks, cancel_all
from .trouble import GivenUpError, Trouble

LOOK_AGAIN_SECONDS = 60.0
TAIL_BYTES = 65536
# What worker 0 has to conclude a round after ranks that still saved have been killed.
LAST_SECONDS = 3.0
WAITS = "This worker waits to be deleted"
APART = (
    "a rank of this worker reports progress as rank 0 does: it trains by itself, apart from the others. "
    "Hugging Face's Trainer joins them by TrainingArguments(use_cpu=True, ddp_backend='gloo')"
)
USAGE = "usage: python -m xeontrain_trainer.launcher -- COMMAND [ARGUMENT...]"


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """The launcher's exit code: 0 after a verdict or SIGTERM, 78 where it was called wrongly, 74 where the
    pod's folder, storage or ports cannot be used, 1 where its own port cannot, or on a bug."""
    command = list(argv[1:]) if argv and argv[0] == "--" else []
    if not command:
        print(USAGE, file=sys.stderr)
        return EXIT_BAD_CONFIG
    try:
        settings = Settings.from_environ(environ)
    except SettingsError as error:
        print(f"xeontrain: {error}", file=sys.stderr)
        # Into the pod's status too: nothing else of this container will tell it.
        write_sentence(environ.get(ENV_TERMINATION_LOG), str(error))
        return EXIT_BAD_CONFIG
    # Not asyncio.run, which waits for threads: one may hang in a storage that is away, and SIGTERM has a
    # deadline.
    loop = asyncio.new_event_loop()
    # Enough of them that names which are not resolved, or files which are not read, hold up no other work.
    loop.set_default_executor(ThreadPoolExecutor(max_workers=32))
    try:
        return loop.run_until_complete(_run(settings, command=command, environ=environ))
    finally:
        cancel_all(loop)
        loop.close()


async def _run(settings: Settings, *, command: Sequence[str], environ: Mapping[str, str]) -> int:
    launcher = Launcher(settings, command=command, environ=environ)
    return await launcher.run()


class Launcher:
    """One start of the container. It is parked from the start where there is a marker or it is told to."""

    def __init__(self, settings: Settings, *, command: Sequence[str], environ: Mapping[str, str]) -> None:
        state = StateDir(settings.state_dir)
        self.settings = settings
        self._tasks = Tasks()
        self._logs = RoundLogs(os.path.join(settings.state_dir, "logs"))
        self._layout = Layout(settings, environ=environ)
        self._marker = state.read_marker(job_uid=settings.job_uid)
        self._basis = Basis(
            settings=settings,
            command=command,
            environ=environ,
            state=state,
            job_dir=JobDir(settings.job_dir),
            logs=self._logs,
            layout=self._layout,
            marker=self._marker,
            tasks=self._tasks,
            say=self.say,
        )
        self._parts: Optional[Parts] = None
        self._kubeflow: Optional[KubeflowPort] = None
        self._told_apart = False
        self._trouble: Optional[Trouble] = None
        self._asked_to_leave = asyncio.Event()
        self._leave_by = float("inf")

    def say(self, text: str) -> None:
        """A line of the launcher's own: to `kubectl logs` and to the worker's log."""
        line = f"xeontrain: {text}"
        with contextlib.suppress(OSError, ValueError):
            print(line, flush=True)
        self._logs.note(line)

    # The run.

    async def run(self) -> int:
        """Serves until the verdict is published here, or SIGTERM."""
        if self._marker is not None:
            # Before all else: killed without it, this start would leave an end that tells nothing.
            self._write_message(self._marker)
        self._take_signals()
        server = make_server(
            self,
            job_uid=self.settings.job_uid,
            exchange=self._exchange if self.settings.worker == 0 else None,
            on_error=self._tell_request_bug,
        )
        try:
            await server.start(host=bind_host(self.settings.pod_ip), port=self.settings.launcher_port)
            await self._live()
        except GivenUpError as error:
            return self._end(f"{error}. Tried for {error.trouble.seconds:.0f} s", code=EXIT_STORAGE)
        except OSError as error:
            return self._end(str(error), code=1)
        except Exception as error:
            self._tell_bug("the launcher has failed and starts again", error)
            return self._end(f"a bug of the launcher: {type(error).__name__}: {error}", code=1)
        finally:
            await self._tasks.close()
            await server.close()
            if self._kubeflow is not None:
                await self._kubeflow.close()
            self._logs.close()
        return 0

    def _take_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stop)
        # What came while this process started (see __main__) comes now; ranks must not inherit the block.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))

    def _end(self, sentence: str, *, code: int) -> int:
        """The container ends without a verdict: why is told in the log and in the pod's status."""
        self.say(sentence)
        if self._marker is None:
            write_sentence(self.settings.termination_log, sentence)
        return code

    async def _live(self) -> None:
        """Until this worker has left, the verdict is published, or a part of it fails."""
        self._greet()
        found = await self._find()
        if found is None:
            return
        parts = self._parts = assemble(self._basis, found)
        self._start_watching(parts)
        if found.result is not None and parts.coordinator is not None:
            # A pod replaced after success has an empty emptyDir; storage tells it that all is done.
            self.say("the job has succeeded already: its result is in storage")
            parts.coordinator.adopt(found.result)
        await self._hear_scripts(parts)
        await self._take_part(parts)

    async def _find(self) -> Optional[Found]:
        """What stands in the pod's folder and in storage; None where SIGTERM came first."""
        basis = self._basis
        work = self._tasks.spawn(
            find(
                self.settings,
                state=basis.state,
                job_dir=basis.job_dir,
                parked=self._marker is not None or self.settings.park_only,
                tell=self._tell_trouble,
            )
        )
        leaving = self._tasks.spawn(self._asked_to_leave.wait())
        await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if not work.done():
            return None
        self._trouble = None
        found: Found = work.result()
        return found

    def _tell_trouble(self, found: Trouble) -> None:
        if self._trouble is None or self._trouble.message != found.message:
            self.say(f"{found.message}; trying again")
        self._trouble = found

    def _start_watching(self, parts: Parts) -> None:
        self._tasks.spawn(reap_orphans())
        self._tasks.spawn(self._look_again(parts))
        if self.settings.training_file is None:
            self._tasks.spawn(parts.placement.run())

    async def _hear_scripts(self, parts: Parts) -> None:
        """Rank 0 of a user's script may report by Kubeflow's protocol; the built-in training does not."""
        if self.settings.training_file is not None:
            return
        take = self._tell_apart if parts.coordinating is None else parts.progress.take
        self._kubeflow = KubeflowPort(
            take, state_dir=self.settings.state_dir, on_error=self._tell_request_bug
        )
        try:
            parts.supervisor.add_environ(await self._kubeflow.start(self._basis.environ))
        except OSError as error:
            self.say(f"progress by Kubeflow's protocol is not heard: {error}")

    def _tell_apart(self, _progress: Mapping[str, Any]) -> None:
        """Only rank 0 reports, and it is not here: a rank of this worker does not know of the others."""
        if not self._told_apart:
            self._told_apart = True
            self.say(APART)

    async def _take_part(self, parts: Parts) -> None:
        leaving = self._tasks.spawn(parts.member_loop.run())
        if self._asked_to_leave.is_set():
            self._stop()
        ends: set[asyncio.Future[Any]] = {self._tasks.failed, leaving}
        coordinating = parts.coordinating
        if coordinating is not None:
            self._tasks.spawn(coordinating.run())
            if self._marker is None:
                ends.add(self._tasks.spawn(self._until_published(parts, coordinating)))
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        if leaving in done and coordinating is not None:
            await coordinating.conclude(until=self._leave_by)

    async def _until_published(self, parts: Parts, coordinating: CoordinatorLoop) -> None:
        """Until everybody has heard the verdict and no rank is left here."""
        await coordinating.published.wait()
        await coordinating.farewell()
        await parts.supervisor.stop()

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

    def _stop(self) -> None:
        """SIGTERM, maybe again."""
        if not self._asked_to_leave.is_set():
            seconds = save_seconds(self.settings.grace_period_seconds) + LAST_SECONDS
            self._leave_by = time.monotonic() + seconds
        self._asked_to_leave.set()
        if self._parts is not None:
            self._tasks.spawn(self._parts.member_loop.leave())

    async def _look_again(self, parts: Parts) -> None:
        """Whether the CPUs are exclusive is judged again each minute; ranks follow a set that changes."""
        while True:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            await asyncio.to_thread(self._layout.look_again)
            if parts.supervisor.alive and self._layout.follow() is not None:
                parts.placement.look()
            parts.member.cpu = self._layout.cpu()

    def _tell_request_bug(self, error: BaseException) -> None:
        self._tell_bug("a request could not be answered", error)

    def _tell_bug(self, what: str, error: BaseException) -> None:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.say(f"{what}; this is a bug:\n{text}")

    # What the port shows.

    async def _exchange(self, report: Report) -> Answer:
        """Worker 0's answer to a report. Raises NotReadyError."""
        if self._parts is None or self._parts.coordinating is None:
            raise NotReadyError(self.ready() or "it is starting")
        return await self._parts.coordinating.exchange(report)

    def trouble(self) -> Optional[Trouble]:
        """What keeps this worker from its place in the gang at this moment."""
        parts = self._parts
        if parts is None:
            return self._trouble
        if parts.member.verdict is not None or self.settings.park_only:
            return None
        found = parts.coordinating.trouble if parts.coordinating else None
        return found or parts.member_loop.trouble

    def ready(self) -> Optional[str]:
        """Ready is a worker that has a place in the gang, or is parked."""
        parts, trouble = self._parts, self.trouble()
        if parts is None:
            return trouble.message if trouble else "the launcher is starting"
        if parts.member.verdict is not None or self.settings.park_only:
            return None
        if trouble is None and parts.member.heard_lately(time.monotonic()):
            return None
        return trouble.message if trouble else "worker 0 has not answered yet"

    def status(self) -> dict[str, Any]:
        """The contract's `/status`."""
        parts, trouble = self._parts, self.trouble()
        if parts is None:
            return starting_document(self.settings, cpu=self._layout.cpu(), trouble=trouble)
        return status_document(
            self.settings,
            member=parts.member,
            coordinator=parts.coordinator,
            cpu=self._layout.cpu(),
            warnings=self._layout.warnings,
            progress=parts.progress.poll(),
            trouble=trouble,
        )

    def log(self, max_bytes: int) -> bytes:
        """The tail of the worker's log, over all rounds."""
        return self._logs.tail(max_bytes)

    def metrics(self) -> str:
        """Prometheus text."""
        return metrics_text(self.status(), ranks_alive=self._parts.supervisor.alive if self._parts else 0)
