"""A level-triggered queue of keys: equal keys merge, one worker a key, work at computed times, back-off.

`Schedule` is the pure half and is told the time; `WorkQueue` is the thin asyncio shell around it.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import random
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

Clock = Callable[[], float]
"""Monotonic seconds."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """Delays after failures in a row: `base_seconds` doubled each time, up to `max_seconds`."""

    base_seconds: float = 0.5
    max_seconds: float = 120.0

    def delay_seconds(self, failures: int, *, jitter: float) -> float:
        """The delay after the `failures`-th failure (1, 2, ...); `jitter` in [0, 1) takes off up to half.

        Without jitter all keys that failed at one fault of the API server would come back at one moment.
        """
        full: float = min(self.max_seconds, self.base_seconds * 2.0 ** min(failures - 1, 32))
        return full * (1.0 - jitter / 2.0)


class Schedule(Generic[K]):
    """Which keys want work and when. Every method that needs the time is given it."""

    def __init__(self, *, backoff: Backoff = Backoff()) -> None:
        self._backoff = backoff
        self._due: dict[K, float] = {}
        self._active: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        # Entries of the heap are valid only while they equal `_due`: a key moved forward leaves its old one.
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0

    def add(self, key: K, *, due: float) -> None:
        """Want work on `key` at `due`; of several wishes the earliest counts.

        A wish that arrives while the key is in work is kept for afterwards: what the running reconcile has
        already read may be older than the wish's cause.
        """
        current = self._due.get(key)
        if current is not None and current <= due:
            return
        self._due[key] = due
        if key not in self._active:
            self._push(key, due)

    def take(self, *, now: float) -> K | None:
        """The key that has been due for longest, now in work; None if there is none."""
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due and key not in self._active:
                del self._due[key]
                self._active[key] = now
                return key
        return None

    def finish(self, key: K) -> None:
        """The work on `key` has ended, well or not; a wish that came meanwhile is due in its turn."""
        self._active.pop(key, None)
        due = self._due.get(key)
        if due is not None:
            self._push(key, due)

    def succeeded(self, key: K) -> None:
        """Forget the failures of `key`."""
        self._failures.pop(key, None)

    def failed(self, key: K, *, now: float, jitter: float, at_least_seconds: float = 0.0) -> float:
        """Want `key` again after its back-off; returns the delay in seconds."""
        self._failures[key] = self._failures.get(key, 0) + 1
        delay = max(at_least_seconds, self._backoff.delay_seconds(self._failures[key], jitter=jitter))
        self.add(key, due=now + delay)
        return delay

    def forget(self, key: K) -> None:
        """Drop all wishes for `key`: it no longer exists."""
        self._due.pop(key, None)
        self._failures.pop(key, None)

    def next_due(self) -> float | None:
        """When `take` will next have something, if nothing is added or finished before."""
        while self._heap:
            due, _, key = self._heap[0]
            if self._due.get(key) == due and key not in self._active:
                return due
            heapq.heappop(self._heap)
        return None

    def depth(self, *, now: float) -> int:
        """Keys that are due and wait for a worker."""
        return sum(due <= now for due in list(self._due.values()))

    def oldest_wait_seconds(self, *, now: float) -> float:
        """For how long the key that waits longest has been due; 0 if none waits."""
        return max(0.0, *(now - due for due in list(self._due.values())), 0.0)

    def longest_work_seconds(self, *, now: float) -> float:
        """For how long the slowest running piece of work has been running; 0 if none runs."""
        return max(0.0, *(now - start for start in list(self._active.values())), 0.0)

    def _push(self, key: K, due: float) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (due, self._sequence, key))


class RetryLater(Exception):
    """Raised by a handler whose key should come back no sooner than `after_seconds`, as a failure."""

    def __init__(self, message: str, *, after_seconds: float) -> None:
        super().__init__(message)
        self.after_seconds = after_seconds


Handler = Callable[[K], Awaitable[float | None]]
"""Works on a key; returns the seconds after which it wants it again, or None."""


class WorkQueue(Generic[K]):
    """Runs a handler over the keys that are added, `num_workers` at a time and never two on one key."""

    def __init__(
        self,
        handler: Handler[K],
        *,
        name: str,
        num_workers: int,
        timeout_seconds: float = 120.0,
        backoff: Backoff = Backoff(),
        clock: Clock = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._handler = handler
        self._name = name
        self._num_workers = num_workers
        self._timeout_seconds = timeout_seconds
        self._schedule: Schedule[K] = Schedule(backoff=backoff)
        self._clock = clock
        self._jitter = jitter
        self._changed = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []
        self._stopping = False

    def add(self, key: K, *, after_seconds: float = 0.0) -> None:
        """Want work on `key`, at once or later; of several wishes the earliest counts."""
        self._schedule.add(key, due=self._clock() + after_seconds)
        self._changed.set()

    def forget(self, key: K) -> None:
        """Drop all wishes for `key`."""
        self._schedule.forget(key)

    def depth(self) -> int:
        """Keys that are due and wait for a worker."""
        return self._schedule.depth(now=self._clock())

    def oldest_seconds(self) -> float:
        """The longest that a key has been due without a worker, or in the hands of one."""
        now = self._clock()
        return max(self._schedule.oldest_wait_seconds(now=now), self._schedule.longest_work_seconds(now=now))

    def is_running(self) -> bool:
        """Whether all workers are alive."""
        return bool(self._workers) and not any(worker.done() for worker in self._workers)

    def start(self) -> None:
        """Start the workers in the running event loop."""
        self._workers = [
            asyncio.create_task(self._work(), name=f"{self._name} {number}")
            for number in range(self._num_workers)
        ]

    async def stop(self, *, grace_seconds: float) -> None:
        """Take no new key, give what is in work `grace_seconds`, then cancel it."""
        self._stopping = True
        self._changed.set()
        if self._workers:
            await asyncio.wait(self._workers, timeout=grace_seconds)
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def _work(self) -> None:
        while not self._stopping:
            key = self._schedule.take(now=self._clock())
            if key is None:
                await self._wait()
                continue
            try:
                await self._handle(key)
            finally:
                self._schedule.finish(key)
                self._changed.set()

    async def _handle(self, key: K) -> None:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                again_seconds = await self._handler(key)
        except RetryLater as error:
            self._retry(key, error, at_least_seconds=error.after_seconds)
        except Exception as error:
            _log.exception("%s: %s failed", self._name, key)
            self._retry(key, error)
        else:
            self._schedule.succeeded(key)
            if again_seconds is not None:
                self._schedule.add(key, due=self._clock() + again_seconds)

    def _retry(self, key: K, error: Exception, *, at_least_seconds: float = 0.0) -> None:
        delay = self._schedule.failed(
            key, now=self._clock(), jitter=self._jitter(), at_least_seconds=at_least_seconds
        )
        _log.warning("%s: %s comes back in %.1f s: %s", self._name, key, delay, error or type(error).__name__)

    async def _wait(self) -> None:
        """Until a key may be due. One wake-up for all workers: those that find nothing wait again."""
        self._changed.clear()
        due = self._schedule.next_due()
        if due is not None and due <= self._clock():
            return
        try:
            async with asyncio.timeout(None if due is None else due - self._clock()):
                await self._changed.wait()
        except TimeoutError:
            return
