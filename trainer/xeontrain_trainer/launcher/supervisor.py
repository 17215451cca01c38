"""Starts, watches and stops the ranks of one worker. asyncio; no torch; works as process 1."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

from .. import contract
from ..machine import count_oom_kills
from ..plan import Plan
from .files import open_regular, remove, write_json
from .logs import RoundLogs, joined
from .output import ErrorTail, LineBuffer, error_file_message
from .processes import SUPERVISED, become_subreaper, kill, members, processes, reap_adopted
from .rankenv import RankFiles, Round, rank_environ

__all__ = ["RankExit", "Round", "Supervisor", "reap_orphans", "shim_command"]

GRACE_SECONDS = 5.0
READ_BYTES = 64 << 10
# fcntl(2); named in the standard library only from Python 3.10 on.
F_GETPIPE_SZ = 1032
# How often a process that has no pidfd, or a session that is being killed, is looked at.
POLL_SECONDS = 0.05
MAX_POLL_SECONDS = 0.5

# Loads the shim from where this very package lies, a folder or a zip file, and from nowhere else: `-I` keeps
# the user's PYTHONPATH and working directory out of it, yet passes both on to the command.
SHIM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from xeontrain_trainer.rank import main; main(sys.argv[1:])"
)


@dataclass(frozen=True)
class RankExit:
    """How a rank ended.

    Exactly one of `exit_code` and `signal` is set. `message`: one line, "" for success. `time`: seconds
    since the epoch. `stopped`: it ended after it was asked to, by the stop flag or by a signal.
    """

    round: int
    local_rank: int
    rank: int
    exit_code: Optional[int]
    signal: Optional[int]
    message: str
    time: float
    stopped: bool

    @property
    def succeeded(self) -> bool:
        """Whether it ended with exit code 0."""
        return self.exit_code == contract.EXIT_OK

    @property
    def user_error(self) -> bool:
        """Whether its exit code is one of the contract's user errors."""
        return self.exit_code in contract.USER_ERROR_EXITS


def exit_message(code: int, *, said: str, out_of_memory: bool = False) -> str:
    """One line for people about a return code (negative: a signal) and what the rank said last; "" for
    success. `out_of_memory`: the kernel has ended a process of the container for it."""
    if code >= 0:
        return said or (f"ended with exit code {code} and no message" if code else "")
    if out_of_memory and -code == signal.SIGKILL:
        return "ended by SIGKILL: the container ran out of memory. Raise spec.resources.memory"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    # Nobody has last words about these two: what stands there is from before and would mislead.
    silent = -code in (signal.SIGKILL, signal.SIGTERM) or not said
    return f"ended by {name}" if silent else f"ended by {name}: {said}"


def shim_command(command: Sequence[str]) -> list[str]:
    """The command line that runs `command` behind the exec shim, as a child of this process."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return [sys.executable, "-I", "-c", SHIM, root, "--parent", str(os.getpid()), "--", *command]


class Supervisor:
    """The ranks of one worker, at most one round at a time.

    `state_dir`: where progress, metrics, stop and plan files lie. `environ`: the launcher's environment,
    passed on to the ranks. `on_exit`: called in the event loop once for each rank that ends, also for one
    that was stopped. `echo`: gets whole lines of output with their prefix, for our own standard output.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        state_dir: str,
        environ: Mapping[str, str],
        logs: RoundLogs,
        on_exit: Callable[[RankExit], None],
        working_dir: Optional[str] = None,
        echo: Optional[Callable[[bytes], None]] = None,
    ) -> None:
        self._command = tuple(command)
        self._environ = dict(environ)
        self._logs = logs
        self._on_exit = on_exit
        self._working_dir = working_dir
        self._echo = echo or _to_stdout
        self.files = RankFiles(state_dir)
        self._marker = f"{contract.ENV_PLAN_FILE}={self.files.plan}".encode()
        self._ranks: list[_Rank] = []
        self._exits: list[RankExit] = []
        self._stopped = False
        self._oom_kills = 0

    def add_environ(self, variables: Mapping[str, str]) -> None:
        """More variables for the ranks of later rounds."""
        self._environ.update(variables)

    @property
    def alive(self) -> int:
        """Ranks of the last round that have not ended, or whose session still has a live process."""
        return sum(not rank.gone.is_set() for rank in self._ranks)

    def families(self) -> dict[int, dict[int, int]]:
        """By local rank the parent of each live process of its session, by process id."""
        ranks = {rank.process.pid: rank.local_rank for rank in self._ranks if not rank.ended.is_set()}
        found: dict[int, dict[int, int]] = {}
        for process in processes() if ranks else ():
            if process.alive and process.session in ranks:
                found.setdefault(ranks[process.session], {})[process.pid] = process.parent
        return found

    @property
    def exits(self) -> tuple[RankExit, ...]:
        """Exits of the last round so far, in the order of time."""
        return tuple(self._exits)

    async def start(self, order: Round, *, plan: Plan) -> None:
        """Writes the plan file, clears progress, metrics and stop files, starts every rank of this worker.

        Raises RuntimeError where ranks of an earlier round are still alive, ValueError where the plan is not
        for as many ranks, OSError where the state folder cannot be written or no process can be made.
        """
        if self.alive:
            raise RuntimeError(f"round {order.number} cannot start: {self.alive} ranks are still alive")
        if len(plan.ranks) != order.ranks_per_worker:
            raise ValueError(
                f"the plan is for {len(plan.ranks)} ranks, the order for {order.ranks_per_worker}"
            )
        self._prepare(order, plan=plan)
        self._ranks, self._exits, self._stopped = [], [], False
        self._oom_kills = count_oom_kills()
        try:
            for local_rank in range(order.ranks_per_worker):
                rank = self._spawn(order, local_rank)
                self._ranks.append(rank)
                rank.task = asyncio.ensure_future(self._watch(rank))
        except OSError:
            await self.stop(grace_seconds=0)
            raise

    def request_stop(self) -> None:
        """Raises the stop flag (the stop file): the ranks are asked to save and end by themselves."""
        self._stopped = True
        write_json(self.files.stop, {"time": time.time()})

    def terminate(self, number: signal.Signals = signal.SIGTERM, *, group: bool = True) -> None:
        """Sends the signal to each live rank's process group, or to its process alone, without waiting."""
        self._stopped = True
        for rank in self._ranks:
            if not rank.ended.is_set():
                kill(rank.process.pid, number, group=group)

    async def stop(self, *, grace_seconds: float = GRACE_SECONDS) -> tuple[RankExit, ...]:
        """SIGTERM to every rank's process group, SIGKILL to the whole session after the grace period; at once
        where that is 0.

        Returns once no process of any rank is left; safe to call when nothing runs, and twice.
        """
        if self._ranks and grace_seconds > 0:
            self.terminate()
            waits = [rank.ended.wait() for rank in self._ranks]
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.gather(*waits), timeout=grace_seconds)
        self.terminate(signal.SIGKILL)
        return await self.wait()

    async def wait(self) -> tuple[RankExit, ...]:
        """The exits of the round once all ranks, and what they left behind, have ended."""
        for rank in self._ranks:
            await rank.gone.wait()
        return self.exits

    def _prepare(self, order: Round, *, plan: Plan) -> None:
        os.makedirs(os.path.join(self.files.state_dir, "logs"), exist_ok=True)
        for path in (self.files.progress, self.files.metrics, self.files.stop):
            remove(path)
        for local_rank in range(order.ranks_per_worker):
            remove(self.files.error(round_number=order.number, rank=order.rank(local_rank)))
        write_json(self.files.plan, plan.to_json())

    def _spawn(self, order: Round, local_rank: int) -> _Rank:
        process = subprocess.Popen(
            shim_command(self._command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=rank_environ(self._environ, order=order, local_rank=local_rank, files=self.files),
            cwd=self._working_dir,
            start_new_session=True,
            close_fds=True,
        )
        rank = _Rank(order, local_rank, process)
        SUPERVISED.add(process.pid)
        assert process.stdout is not None
        assert process.stderr is not None
        rank.streams = [
            _Stream(process.stdout.fileno(), take=lambda lines: self._take(rank, lines, error=False)),
            _Stream(process.stderr.fileno(), take=lambda lines: self._take(rank, lines, error=True)),
        ]
        return rank

    def _take(self, rank: _Rank, lines: Sequence[bytes], *, error: bool) -> None:
        """Lines of a rank: to its log, the worker's, our own output, and the memory for its message."""
        prefix = f"[rank {rank.rank}] ".encode() if rank.order.world_size > 1 else b""
        self._logs.write(lines, round_number=rank.order.number, rank=rank.rank, prefix=prefix)
        self._echo(joined(lines, prefix=prefix))
        if error:
            for line in lines:
                rank.errors.add(line)

    async def _watch(self, rank: _Rank) -> None:
        """Reports the rank's exit at once, then ends what it left behind."""
        code = await _exited(rank.process)
        now = time.time()
        for stream in rank.streams:
            stream.drain()
        exit_ = self._exit_of(rank, code=code, now=now)
        self._exits.append(exit_)
        rank.ended.set()
        try:
            self._on_exit(exit_)
        finally:
            await self._end_session(rank)
            for stream in rank.streams:
                stream.close()
            rank.gone.set()

    def _exit_of(self, rank: _Rank, *, code: int, now: float) -> RankExit:
        path = self.files.error(round_number=rank.order.number, rank=rank.rank)
        said = error_file_message(_read_text(path)) or rank.errors.message() if code else ""
        return RankExit(
            round=rank.order.number,
            local_rank=rank.local_rank,
            rank=rank.rank,
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            message=exit_message(
                code, said=said, out_of_memory=code < 0 and count_oom_kills() > self._oom_kills
            ),
            time=now,
            stopped=self._stopped,
        )

    async def _end_session(self, rank: _Rank) -> None:
        """A rank's end is the end of its children, as it would be in a container of its own."""
        delay = POLL_SECONDS
        while True:
            left = self._left_by(rank)
            if not left:
                return
            for pid in left:
                kill(pid, signal.SIGKILL)
            await asyncio.sleep(delay)
            reap_adopted()
            delay = min(MAX_POLL_SECONDS, delay * 2)

    def _left_by(self, rank: _Rank) -> list[int]:
        """Live processes of the rank's session. Those that left it are known by their environment alone,
        which does not name the rank: they are ended with the last rank of the worker."""
        others_ended = all(other.ended.is_set() for other in self._ranks)
        marker = self._marker if others_ended else b"\0"
        return [process.pid for process in members(sessions={rank.process.pid}, marker=marker)]


class _Rank:
    """One running rank. `ended`: its process is over. `gone`: so is all that it left behind."""

    def __init__(self, order: Round, local_rank: int, process: subprocess.Popen[bytes]) -> None:
        self.order = order
        self.local_rank = local_rank
        self.rank = order.rank(local_rank)
        self.process = process
        self.errors = ErrorTail()
        self.streams: list[_Stream] = []
        self.ended = asyncio.Event()
        self.gone = asyncio.Event()
        self.task: Optional[asyncio.Future[None]] = None


class _Stream:
    """One end of a rank's output in the event loop. Never waits for the end of the stream: a child of the
    rank may hold it open for ever."""

    def __init__(self, handle: int, *, take: Callable[[Sequence[bytes]], None]) -> None:
        self._handle = os.dup(handle)
        self._take = take
        self._lines = LineBuffer()
        self._open = True
        os.set_blocking(self._handle, False)
        asyncio.get_running_loop().add_reader(self._handle, self._read)

    def _read(self) -> int:
        """Takes what is there, at most READ_BYTES; how many bytes it was."""
        try:
            data = os.read(self._handle, READ_BYTES)
        except BlockingIOError:
            return 0
        lines = self._lines.feed(data)
        if lines:
            self._take(lines)
        if not data:
            self.close()
        return len(data)

    def drain(self) -> None:
        """Takes all that has been written up to now, and no more: a child of the rank may write for ever,
        faster than it is read."""
        left = fcntl.fcntl(self._handle, F_GETPIPE_SZ) if self._open else 0
        while self._open and left > 0:
            taken = self._read()
            left = left - taken if taken else 0
        self._flush()

    def close(self) -> None:
        """Stops reading; what was begun is taken as a line."""
        if self._open:
            self._open = False
            asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)
            self._flush()

    def _flush(self) -> None:
        """A line that was begun and will not be ended is a line."""
        lines = self._lines.flush()
        if lines:
            self._take(lines)


async def _exited(process: subprocess.Popen[bytes]) -> int:
    """The process's return code, negative for a signal. Not asyncio's own child handling: that waits for the
    end of the pipes as well, and its way of waiting differs between versions of Python."""
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        handle = -1
    if handle >= 0:
        await _readable(handle)
    while process.poll() is None:
        await asyncio.sleep(POLL_SECONDS)
    SUPERVISED.discard(process.pid)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return int(process.returncode)


async def _readable(handle: int) -> None:
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(handle, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _read_text(path: str) -> str:
    try:
        with open_regular(path) as file:
            return file.read(1 << 20).decode("utf-8", errors="replace")
    except OSError:
        return ""


def _to_stdout(line: bytes) -> None:
    """A reader that has gone away (a closed terminal) must not end the training."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


async def reap_orphans(*, interval_seconds: float = 5.0) -> None:
    """Collects zombies that others left to this process, until cancelled. Makes the process a subreaper
    first."""
    become_subreaper()
    while True:
        reap_adopted()
        await asyncio.sleep(interval_seconds)
