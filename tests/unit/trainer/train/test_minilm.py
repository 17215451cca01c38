"""The real model on the real mail: one worker and two have the same losses, step by step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from xeontrain_trainer import contract

from tests.unit.trainer.train import scenarios
from tests.unit.trainer.train.ranks import run_ranks, succeeded
from tools import hub_cache

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]

DATA = Path(__file__).resolve().parents[4] / "examples" / "data"


@pytest.fixture(scope="module", autouse=True)
def model_in_the_cache() -> None:
    """The model in the hub cache of this machine, so that it is fetched once and not for each run."""
    hub_cache.fill(hub_cache.default_cache())


def losses(folder: Path, *, world_size: int) -> list[float]:
    """The losses of the first ten steps, as the job's progress tells them."""
    training: dict[str, Any] = {
        "task": "text-classification",
        "model": hub_cache.MODEL,
        "dataset": {"files": {"train": [str(DATA / "mail-train.csv")]}},
        "hyperparameters": {
            "maxSteps": 10,
            "batchSize": 8,
            "maxLength": 32,
            "learningRate": 1e-4,
            "dropout": 0,
        },
        "precision": "FP32",
    }
    folder.mkdir()
    document, progress = folder / "training.json", folder / "progress.jsonl"
    document.write_text(json.dumps({"contract": contract.CONTRACT_VERSION, "training": training}))
    environ = {
        contract.ENV_TRAINING_FILE: str(document),
        contract.ENV_PROGRESS_FILE: str(progress),
    }
    ended = run_ranks(scenarios.train, world_size=world_size, environ=environ)
    assert succeeded(ended) == [0] * world_size
    lines = (json.loads(line) for line in progress.read_text().splitlines())
    return [line["loss"] for line in lines if line["step"] > 0]


def test_first_ten_losses_are_equal(tmp_path: Path) -> None:
    """With dropout off, the loss of each of the first ten steps is the same for 1 and 2 workers (1e-5)."""
    one = losses(tmp_path / "one", world_size=1)
    two = losses(tmp_path / "two", world_size=2)
    assert len(one) == 10
    assert max(one) - min(one) > 0.01
    assert two == pytest.approx(one, abs=1e-5)
