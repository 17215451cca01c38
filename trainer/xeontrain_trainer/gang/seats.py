"""Who holds each worker's place, as the coordinator sees it: claims, silence, and the coordinator's own
sleep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Optional

from .identity import Identity, started_later
from .messages import Report
from .timing import LONGEST_NAP_SECONDS


class AwakeClock:
    """Seconds during which the coordinator was awake.

    A process that was stopped, or starved of CPU, must not take its own absence for everybody's silence: of a
    gap between two looks at the clock only LONGEST_NAP_SECONDS count. Look at least that often.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._last: Optional[float] = None

    def look(self, now: float) -> float:
        """The awake time at `now`."""
        if self._last is None or now > self._last:
            gap = 0.0 if self._last is None else now - self._last
            self.seconds += min(gap, LONGEST_NAP_SECONDS)
            self._last = now
        return self.seconds


@dataclass
class Seat:
    """A worker's place. `report`: the newest one of the launcher that holds it. `seen`, `since`: awake time
    of that report, and of the first one with its state. `lost`: it has fallen silent."""

    report: Report
    seen: float
    since: float
    lost: bool = False

    @property
    def identity(self) -> Identity:
        """The launcher that holds the place."""
        return self.report.identity


class Seats:
    """The places of all workers. Of two pods that claim one, the later started holds it unless it is
    silent."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._seats: dict[int, Seat] = {}

    def __iter__(self) -> Iterator[Seat]:
        return iter(self._seats.values())

    def get(self, worker: int) -> Optional[Seat]:
        """The worker's place, None before its first report."""
        return self._seats.get(worker)

    def holder(self, worker: int) -> Optional[Identity]:
        """Who holds the worker's place."""
        seat = self._seats.get(worker)
        return seat.identity if seat else None

    def missing(self) -> list[int]:
        """Workers that have not reported, or no longer do."""
        return [w for w in range(self.workers) if w not in self._seats or self._seats[w].lost]

    def complete(self) -> bool:
        """Whether every worker has reported and none is lost."""
        return len(self._seats) == self.workers and not any(seat.lost for seat in self)

    def take(self, report: Report, awake: float) -> bool:
        """Notes a report; False where it tells nothing: a late copy, or a launcher that does not hold the
        place."""
        seat = self._seats.get(report.worker)
        if seat is None or seat.identity != report.identity:
            if seat is not None and not _outranks(report.identity, seat):
                return False
            self._seats[report.worker] = Seat(report=report, seen=awake, since=awake)
            return True
        if report.sequence <= seat.report.sequence:
            return False
        if report.state != seat.report.state:
            seat.since = awake
        seat.report, seat.seen, seat.lost = report, awake, False
        return True

    def fall_silent(self, awake: float, silent_seconds: float) -> list[Seat]:
        """Marks as lost, and returns, those that have been silent too long since the last look."""
        fallen = [s for s in self if not s.lost and awake - s.seen > silent_seconds]
        for seat in fallen:
            seat.lost = True
        return fallen


def _outranks(claimant: Identity, seat: Seat) -> bool:
    if claimant.pod_uid == seat.identity.pod_uid:
        return claimant.start > seat.identity.start
    return seat.lost or started_later(claimant, seat.identity)
