"""A loss that is not finite in one rank: all stop at that step, before any of them changes its weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.trainer.train import scenarios, tiny
from tests.unit.trainer.train.ranks import run_ranks, succeeded

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]


@pytest.mark.parametrize("poisoned_rank", [0, 1])
def test_one_ranks_nan_stops_all_at_the_same_step(
    tiny_model: Path, tmp_path: Path, poisoned_rank: int
) -> None:
    """In BF16, where weights and the optimizer's state are FP32 all along."""
    training = tiny.training(tiny_model, train=[tiny.write_csv(tmp_path / "train.csv", tiny.rows(40))])
    job = scenarios.Job(training, tiny.prepare(training))
    ended = run_ranks(scenarios.train_with_a_nan, job, world_size=2, poisoned_rank=poisoned_rank, at_step=3)
    for stopped in succeeded(ended):
        assert "loss nan and gradient norm" in stopped.message
        assert "at step 3 are not both finite" in stopped.message
        assert (stopped.changes, stopped.left_alone) == (2, True)
        assert stopped.dtypes == {"torch.float32"}
