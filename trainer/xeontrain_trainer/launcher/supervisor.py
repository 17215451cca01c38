"""Starts, watches and stops the ranks of one worker. asyncio; no torch; works as process 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

from ..plan import Plan
from .logs import RoundLogs


@dataclass(frozen=True)
class Round:
    """What the coordinator ordered, as far as the ranks see it. World size = workers x ranks_per_worker."""

    number: int
    worker: int
    workers: int
    ranks_per_worker: int
    master_addr: str
    master_port: int
    run_id: str
    restart_count: int = 0
    max_restarts: int = 0


@dataclass(frozen=True)
class RankExit:
    """How a rank ended. Exactly one of `exit_code` and `signal` is set. `message`: one line, "" where the rank said
    nothing. `time`: seconds since the epoch. `stopped`: it ended after `Supervisor.stop` asked it to."""

    round: int
    local_rank: int
    rank: int
    exit_code: Optional[int]
    signal: Optional[int]
    message: str
    time: float
    stopped: bool


class Supervisor:
    """The ranks of one worker, at most one round at a time.

    `state_dir`: where progress, metrics, stop and plan files lie. `environ`: the launcher's environment, passed on
    to the ranks. `on_exit`: called in the event loop once for each rank that ends, also for one that was stopped.
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
    ) -> None:
        raise NotImplementedError

    @property
    def alive(self) -> int:
        """Ranks of the last round that have not ended, or have left a live process behind in their session."""
        raise NotImplementedError

    @property
    def exits(self) -> tuple[RankExit, ...]:
        """Exits of the last round so far, in the order of time."""
        raise NotImplementedError

    async def start(self, order: Round, *, plan: Plan) -> None:
        """Writes the plan file, clears progress, metrics and stop files, starts every rank of this worker.

        Raises RuntimeError where ranks of an earlier round are still alive.
        """
        raise NotImplementedError

    def request_stop(self) -> None:
        """Raises the stop flag (the stop file): the ranks are asked to save and end by themselves."""
        raise NotImplementedError

    async def stop(self, *, grace_seconds: float = 5.0) -> tuple[RankExit, ...]:
        """SIGTERM to every rank's process group, SIGKILL to the whole session after the grace period.

        Returns once no process of any rank is left; safe to call when nothing runs, and twice.
        """
        raise NotImplementedError

    async def wait(self) -> tuple[RankExit, ...]:
        """The exits of the round once all ranks have ended."""
        raise NotImplementedError


async def reap_orphans(*, interval_seconds: float = 5.0) -> None:
    """Collects zombies that others left to this process (as process 1 or subreaper), until cancelled."""
    raise NotImplementedError
