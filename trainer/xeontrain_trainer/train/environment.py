"""Where a rank stands: one small frozen object read from the environment. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .. import contract
from .errors import RankLayoutError


@dataclass(frozen=True)
class Environment:
    """A rank's place among the others and the files it shares with its launcher.

    Ranks count from 0. `group_rank` is the worker's number, `local_rank` the rank within the worker.
    A path is None where nobody asked for that file. `timeout_seconds`: of `spec.distributed`, for meeting the
    others.
    """

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    group_rank: int
    group_world_size: int
    master_addr: str | None
    master_port: int
    timeout_seconds: int
    backend: str
    training_file: str
    round: int
    job_dir: str | None
    state_dir: str | None
    progress_file: str | None
    metrics_file: str | None
    stop_file: str | None
    plan_file: str | None
    error_file: str | None

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Environment:
        """Read torchrun's names and the contract's.

        Without WORLD_SIZE it is a single process. Raises RankLayoutError where numbers contradict each other.
        """
        world_size = _number(environ, "WORLD_SIZE", default=1)
        local_world_size = _number(environ, "LOCAL_WORLD_SIZE", default=1)
        workers = _number(environ, contract.ENV_WORKERS, default=max(1, world_size // local_world_size))
        environment = cls(
            rank=_number(environ, "RANK", default=0),
            world_size=world_size,
            local_rank=_number(environ, "LOCAL_RANK", default=0),
            local_world_size=local_world_size,
            group_rank=_number(
                environ, "GROUP_RANK", default=_number(environ, "RANK", default=0) // local_world_size
            ),
            group_world_size=workers,
            master_addr=environ.get("MASTER_ADDR") or None,
            master_port=_number(environ, "MASTER_PORT", default=contract.MASTER_PORT),
            timeout_seconds=_number(environ, contract.ENV_RENDEZVOUS_TIMEOUT_SECONDS, default=600),
            backend=environ.get(contract.ENV_BACKEND) or "Auto",
            training_file=environ.get(contract.ENV_TRAINING_FILE) or contract.TRAINING_FILE,
            round=_number(environ, contract.ENV_ROUND, default=0),
            job_dir=environ.get(contract.ENV_JOB_DIR) or None,
            state_dir=environ.get(contract.ENV_STATE_DIR) or None,
            progress_file=environ.get(contract.ENV_PROGRESS_FILE) or None,
            metrics_file=environ.get(contract.ENV_METRICS_FILE) or None,
            stop_file=environ.get(contract.ENV_STOP_FILE) or None,
            plan_file=environ.get(contract.ENV_PLAN_FILE) or None,
            error_file=environ.get("TORCHELASTIC_ERROR_FILE") or None,
        )
        environment._check()
        return environment

    def _check(self) -> None:
        """N separate trainings in silence are the worst failure there is; they start with wrong numbers."""
        expected = self.group_world_size * self.local_world_size
        if self.world_size != expected:
            raise RankLayoutError(
                f"WORLD_SIZE is {self.world_size}, but {self.group_world_size} workers of "
                f"{self.local_world_size} ranks are {expected}: the ranks would train separately"
            )
        if not 0 <= self.rank < self.world_size or not 0 <= self.local_rank < self.local_world_size:
            raise RankLayoutError(
                f"RANK {self.rank} of {self.world_size} or LOCAL_RANK {self.local_rank} of "
                f"{self.local_world_size} is outside its range"
            )
        if self.world_size > 1 and self.master_addr is None:
            raise RankLayoutError(f"WORLD_SIZE is {self.world_size}, but MASTER_ADDR is not set")

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, which reports and saves for all."""
        return self.rank == 0

    @property
    def prepares_data(self) -> bool:
        """Whether this rank reads and tokenizes the data for its worker."""
        return self.local_rank == 0


def _number(environ: Mapping[str, str], name: str, *, default: int) -> int:
    text = environ.get(name)
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise RankLayoutError(f"{name} is {text!r}, not a whole number") from None
