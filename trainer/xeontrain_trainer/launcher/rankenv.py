"""The environment of a rank: the contract's table of what the launcher owns, and caches that can be
written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from .. import contract
from ..caches import moved_caches


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

    @property
    def world_size(self) -> int:
        """Ranks of the whole job."""
        return self.workers * self.ranks_per_worker

    def rank(self, local_rank: int) -> int:
        """Global rank."""
        return self.worker * self.ranks_per_worker + local_rank


@dataclass(frozen=True)
class RankFiles:
    """Where the ranks of this worker find and leave things in the state folder."""

    state_dir: str

    @property
    def progress(self) -> str:
        """JSON lines, appended by rank 0."""
        return os.path.join(self.state_dir, "progress.jsonl")

    def has_progress(self) -> bool:
        """Whether rank 0 has told of its progress in this round."""
        try:
            return os.path.getsize(self.progress) > 0
        except OSError:
            return False

    @property
    def metrics(self) -> str:
        """Rank 0's final metrics."""
        return os.path.join(self.state_dir, "metrics.json")

    def has_metrics(self) -> bool:
        """Whether rank 0 has finished: it has left its final metrics."""
        return os.path.isfile(self.metrics)

    @property
    def stop(self) -> str:
        """Exists once the ranks are asked to save and stop."""
        return os.path.join(self.state_dir, "stop")

    @property
    def plan(self) -> str:
        """The plan of this worker."""
        return os.path.join(self.state_dir, "plan.json")

    def error(self, *, round_number: int, rank: int) -> str:
        """A rank's own account of its end."""
        return os.path.join(self.state_dir, "logs", f"round-{round_number}-rank-{rank}-error.json")


def rank_environ(
    environ: Mapping[str, str], *, order: Round, local_rank: int, files: RankFiles
) -> dict[str, str]:
    """The launcher's environment with everything that it owns in place (torchrun's names and ours)."""
    rank = order.rank(local_rank)
    owned = {
        "RANK": rank,
        "WORLD_SIZE": order.world_size,
        "LOCAL_RANK": local_rank,
        "LOCAL_WORLD_SIZE": order.ranks_per_worker,
        "GROUP_RANK": order.worker,
        "GROUP_WORLD_SIZE": order.workers,
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": order.world_size,
        "ROLE_NAME": "default",
        "MASTER_ADDR": order.master_addr,
        "MASTER_PORT": order.master_port,
        "TORCHELASTIC_RUN_ID": order.run_id,
        "TORCHELASTIC_RESTART_COUNT": order.restart_count,
        "TORCHELASTIC_MAX_RESTARTS": order.max_restarts,
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_ERROR_FILE": files.error(round_number=order.number, rank=rank),
        contract.ENV_ROUND: order.number,
        contract.ENV_PROGRESS_FILE: files.progress,
        contract.ENV_METRICS_FILE: files.metrics,
        contract.ENV_STOP_FILE: files.stop,
        contract.ENV_PLAN_FILE: files.plan,
    }
    return {
        **environ,
        **moved_caches(environ, state_dir=files.state_dir),
        **{name: str(value) for name, value in owned.items()},
    }
