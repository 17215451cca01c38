"""A rank's environment is torchrun's, whatever stood there before."""

from __future__ import annotations

from pathlib import Path

from xeontrain_trainer import contract
from xeontrain_trainer.launcher.rankenv import RankFiles, Round, rank_environ

ORDER = Round(
    number=5,
    worker=2,
    workers=3,
    ranks_per_worker=2,
    master_addr="10.0.0.7",
    master_port=29504,
    run_id="uid-1",
    restart_count=4,
    max_restarts=3,
)


def test_all_that_the_launcher_owns(tmp_path: Path) -> None:
    """Every name of the contract's second table is there, by value."""
    environ = rank_environ(
        {"HOME": str(tmp_path), "KEPT": "yes", "RANK": "99"},
        order=ORDER,
        local_rank=1,
        files=RankFiles("/run/xeontrain"),
    )
    assert {name: environ[name] for name in contract.OWNED_ENV} == {
        "RANK": "5",
        "WORLD_SIZE": "6",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "2",
        "GROUP_WORLD_SIZE": "3",
        "ROLE_RANK": "5",
        "ROLE_WORLD_SIZE": "6",
        "ROLE_NAME": "default",
        "MASTER_ADDR": "10.0.0.7",
        "MASTER_PORT": "29504",
        "TORCHELASTIC_RUN_ID": "uid-1",
        "TORCHELASTIC_RESTART_COUNT": "4",
        "TORCHELASTIC_MAX_RESTARTS": "3",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_ERROR_FILE": "/run/xeontrain/logs/round-5-rank-5-error.json",
        "XEONTRAIN_ROUND": "5",
        "XEONTRAIN_PROGRESS_FILE": "/run/xeontrain/progress.jsonl",
        "XEONTRAIN_METRICS_FILE": "/run/xeontrain/metrics.json",
        "XEONTRAIN_STOP_FILE": "/run/xeontrain/stop",
        "XEONTRAIN_PLAN_FILE": "/run/xeontrain/plan.json",
    }
    assert environ["KEPT"] == "yes"


def test_ranks_of_all_workers_number_the_world() -> None:
    ranks = [
        Round(1, worker, 3, 2, "", 0, "").rank(local_rank) for worker in range(3) for local_rank in range(2)
    ]
    assert ranks == list(range(6))
