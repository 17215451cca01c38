"""The launchers as child processes: started, watched, and ended whatever happens."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from xeontrain_operator.cli.run.worker import LOOPBACK, Worker

STOP_SECONDS: Final = 20.0
"""How long launchers that nobody waits for have to end their ranks before they are killed."""
_POLL_SECONDS: Final = 0.05

_LOWEST_PORT: Final = 15_000
_PORT_RANGES: Final = 140
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def free_ports(number: int) -> tuple[int, ...]:
    """Return as many different ports of the loopback interface that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind((LOOPBACK, 0))
        return tuple(one.getsockname()[1] for one in sockets)


def free_port_range() -> int:
    """Return the first of 100 ports for the rendezvous, other than another run's on this machine.

    The range is taken by chance, because a rank listens only minutes after the port was chosen. It lies below
    the kernel's own range for outgoing connections.
    """
    while True:
        first = _LOWEST_PORT + 100 * secrets.randbelow(_PORT_RANGES)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind((LOOPBACK, first))
            return first


class Launchers:
    """The running launchers, in the order of their workers."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self._asked = False

    def start(self, workers: Iterable[Worker]) -> None:
        """Start each worker's launcher in a session of its own, on its CPUs."""
        for worker in workers:
            with worker.log.open("wb") as log:
                self.processes.append(_start(worker, log.fileno()))

    def ended(self) -> list[int]:
        """Return the workers whose launcher has ended."""
        return [number for number, process in enumerate(self.processes) if process.poll() is not None]

    def ask_to_end(self, *, patience_seconds: float) -> None:
        """Have all ranks save and end; returns when they have, or when patience is over. KeyboardInterrupt
        ends the wait, and `stop` then waits for nobody."""
        self._asked = True
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + patience_seconds
        while len(self.ended()) < len(self.processes) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """End all launchers: killed at once where they have been asked before, else after STOP_SECONDS. Ranks
        die with their launcher."""
        if not self._asked:
            self.ask_to_end(patience_seconds=STOP_SECONDS)
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()


@contextlib.contextmanager
def running(workers: Iterable[Worker]) -> Iterator[Launchers]:
    """Start the launchers; none is left when the block ends, for whatever reason.

    SIGTERM ends the block as Ctrl-C does, by KeyboardInterrupt.
    """
    launchers = Launchers()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    others = _children()
    # What a rank has left in a session and with an environment of its own, its launcher does not know; when
    # that has ended, it comes to this process.
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        launchers.start(workers)
        yield launchers
    finally:
        # A second Ctrl-C must not cut short what leaves nothing behind; it takes STOP_SECONDS at most.
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        launchers.stop()
        _end_orphans(others=others)
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, interrupt)


def _end_orphans(*, others: set[int]) -> None:
    """Kill all children but `others`, and theirs, which come to this process in turn."""
    while left := _children() - others:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _children() -> set[int]:
    """Return the children of this process, zombies among them."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name in parentheses may itself hold spaces and parentheses: proc_pid_stat(5).
            parent = stat.read_bytes().rpartition(b")")[2].split()[1]
            if int(parent) == os.getpid():
                found.add(int(stat.parent.name))
    return found


def _start(worker: Worker, log: int) -> subprocess.Popen[bytes]:
    runner = os.getpid()

    def prepare() -> None:
        # Between fork and exec: only system calls.
        os.sched_setaffinity(0, worker.cpus)
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != runner:
            os._exit(1)

    return subprocess.Popen(
        worker.argv,
        env=dict(worker.environ),
        cwd=worker.working_dir,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        preexec_fn=prepare,
    )
