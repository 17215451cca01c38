"""How much of the machine others use while a contender runs, so that disturbed steps do not count."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple

import psutil

# Others: every process but this one and what it has started.
QUIET_CORES = 0.1
PERIOD_SECONDS = 1.0
_CALM_PERIODS = 3


class Window(NamedTuple):
    """From `start` to `end` (seconds, time.monotonic) others used `cores` CPUs on average."""

    start: float
    end: float
    cores: float


class Clock(NamedTuple):
    """CPU seconds so far: of the whole machine, and of this process with all its descendants."""

    time: float
    machine: float
    own: float


def read_clock() -> Clock:
    """The CPU seconds of this moment.

    Interrupts are left out: those that our own loopback traffic causes belong to no process. Steal counts: a
    neighbour that takes the CPU from this virtual machine disturbs like one in it.
    """
    times = psutil.cpu_times()
    machine = times.user + times.nice + times.system + times.steal
    me = psutil.Process()
    return Clock(
        time=time.monotonic(),
        machine=machine,
        own=sum(_cpu_seconds(process) for process in (me, *me.children(recursive=True))),
    )


def _cpu_seconds(process: psutil.Process) -> float:
    """With those of children that it has waited for, so that nothing is lost when one ends."""
    try:
        return float(sum(process.cpu_times()[:4]))
    except psutil.Error:
        return 0.0


def window_between(before: Clock, after: Clock) -> Window:
    """What others used between two moments; ticks are coarse, so a little less than nothing is nothing."""
    others = (after.machine - before.machine) - (after.own - before.own)
    return Window(before.time, after.time, max(0.0, others / (after.time - before.time)))


def is_quiet(start: float, end: float, *, windows: Sequence[Window]) -> bool:
    """Whether others left the CPUs alone in every window that touches the span; False where none does."""
    touching = [window.cores for window in windows if window.start < end and window.end > start]
    return bool(touching) and max(touching) < QUIET_CORES


def mean_cores(windows: Sequence[Window]) -> float:
    """What others used over all windows, in CPUs."""
    seconds = sum(window.end - window.start for window in windows)
    return sum(window.cores * (window.end - window.start) for window in windows) / max(seconds, 1e-9)


@dataclass
class LoadWatch:
    """Looks once a second while the block runs."""

    windows: list[Window] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> LoadWatch:
        self._thread = threading.Thread(target=self._watch, args=(read_clock(),), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()

    def _watch(self, before: Clock) -> None:
        stopped = False
        while not stopped:
            stopped = self._stop.wait(PERIOD_SECONDS)
            after = read_clock()
            # A last window of milliseconds would hold less than one tick of the kernel's clock.
            if after.time - before.time > PERIOD_SECONDS / 2:
                self.windows.append(window_between(before, after))
                before = after


def wait_until_quiet(*, patience_seconds: float) -> bool:
    """Waits for three quiet periods in a row; False where the patience ends first."""
    deadline = time.monotonic() + patience_seconds
    calm, before = 0, read_clock()
    while calm < _CALM_PERIODS:
        if time.monotonic() > deadline:
            return False
        time.sleep(PERIOD_SECONDS)
        after = read_clock()
        calm = calm + 1 if window_between(before, after).cores < QUIET_CORES else 0
        before = after
    return True
