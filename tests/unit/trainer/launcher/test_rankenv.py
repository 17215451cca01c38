"""A rank's environment is torchrun's, whatever stood there before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from xeontrain_trainer import contract
from xeontrain_trainer.launcher.rankenv import RankFiles, Round, rank_environ, writable_caches

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


@pytest.mark.parametrize(
    ("environ", "made", "readonly", "expected"),
    [
        pytest.param({"HOME": "{}"}, ".cache", False, {}, id="writable-home"),
        pytest.param(
            {"HOME": "{}"}, "", True, {"HF_HOME": "{}/state/cache/huggingface"}, id="read-only-home"
        ),
        pytest.param({}, "", True, {}, id="no-home"),
        pytest.param(
            {"HOME": "{}"},
            ".cache/huggingface",
            True,
            {
                "HF_DATASETS_CACHE": "{}/state/cache/huggingface/datasets",
                "HF_MODULES_CACHE": "{}/state/cache/huggingface/modules",
            },
            id="a-read-only-model-cache-stays-first",
        ),
        pytest.param(
            {"HOME": "{}", "HF_HOME": "{}/.cache/huggingface", "HF_DATASETS_CACHE": "/mine"},
            ".cache/huggingface",
            True,
            {"HF_MODULES_CACHE": "{}/state/cache/huggingface/modules"},
            id="what-the-user-set-stays",
        ),
    ],
)
def test_caches(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    made: str,
    readonly: bool,
    expected: dict[str, str],
) -> None:
    """Root may write anywhere, so what may be written is decided by the test."""
    (tmp_path / made).mkdir(parents=True, exist_ok=True)
    home = str(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: not (readonly and str(path).startswith(home)))
    filled = {name: value.format(home) for name, value in environ.items()}
    assert writable_caches(filled, state_dir=f"{home}/state") == {
        name: value.format(home) for name, value in expected.items()
    }
