"""Processes below this one, from `/proc`: who belongs to a rank, who is left over, who is a zombie of
ours."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Optional

PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Process:
    """A line of `/proc/<pid>/stat` (proc_pid_stat(5)). `state`: one letter, Z for a zombie, X for dead."""

    pid: int
    state: str
    parent: int
    session: int

    @property
    def alive(self) -> bool:
        """Whether it can still do something."""
        return self.state not in ("Z", "X")


def processes() -> Iterator[Process]:
    """All processes of this PID namespace."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = read_process(int(name))
            if process is not None:
                yield process


def read_process(pid: int) -> Optional[Process]:
    """The process, None where there is none (any more)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses may itself hold spaces and parentheses.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return Process(pid=pid, state=fields[0].decode(), parent=int(fields[1]), session=int(fields[3]))


def members(*, sessions: Collection[int], marker: bytes) -> list[Process]:
    """Live processes of these sessions, and those that left them but still carry `marker` (`NAME=value`) in
    their environment. This process itself is never among them."""
    return [
        process
        for process in processes()
        if process.alive
        and process.pid != os.getpid()
        and (process.session in sessions or marker in _environ(process.pid))
    ]


def _environ(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def kill(pid: int, number: signal.Signals, *, group: bool = False) -> None:
    """Sends the signal; a process that is gone, or is not ours, is as good as killed."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        (os.killpg if group else os.kill)(pid, number)


def become_subreaper() -> None:
    """Orphans of the ranks come to this process rather than to the machine's process 1 (prctl(2)), so that
    they can be found and collected. Process 1 of a container gets them anyway."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


# Children that the supervisor waits for itself. A registry of the process, as its children are.
SUPERVISED: set[int] = set()


def reap_adopted() -> int:
    """Collects zombies that are this process's children but not of its session: orphans of ranks, or of an
    exec into the container. Returns how many.

    Children that other code here started share its session and are left to it; ranks, which lead sessions of
    their own, are in `SUPERVISED`.
    """
    own, session = os.getpid(), os.getsid(0)
    collected = 0
    for process in processes():
        adopted = process.parent == own and process.session != session and process.pid not in SUPERVISED
        if process.state == "Z" and adopted:
            with contextlib.suppress(ChildProcessError):
                collected += os.waitpid(process.pid, os.WNOHANG)[0] == process.pid
    return collected
