"""The central promise: losses and gradients do not depend on the number of ranks or accumulation steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xeontrain_trainer.train import data

from tests.unit.trainer.train import scenarios, tiny
from tests.unit.trainer.train.ranks import run_ranks, succeeded

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]

# A full batch; one that no number of ranks divides; one smaller than four ranks; a single row.
BATCHES = [range(16), range(16, 29), range(30, 33), [33]]
ACCUMULATIONS = [1, 2, 3]


@dataclass(frozen=True)
class Job:
    """A job's training block and its samples."""

    training: dict[str, Any]
    prepared: data.Prepared


@pytest.fixture(scope="module")
def job(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("rows")
    train = tiny.write_csv(folder / "train.csv", tiny.rows(40))
    evaluate = tiny.write_csv(folder / "eval.csv", tiny.rows(37, seed=3))
    training = tiny.training(tiny_model, train=[train], evaluate=[evaluate])
    return Job(training, tiny.prepare(training))


@pytest.fixture(scope="module")
def reference(job: Job) -> list[scenarios.Step]:
    ended = run_ranks(scenarios.plain_steps, job.training, job.prepared, world_size=1, rows=BATCHES)
    (values,) = succeeded(ended)
    return list(values)


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_gradients_are_those_of_one_process(
    job: Job, reference: list[scenarios.Step], world_size: int
) -> None:
    """Every rank has, before the optimizer, the gradient of the mean loss over the global batch (1e-5).

    For 1, 2 and 4 ranks, for 1 to 3 accumulation steps, for batches that ranks do not divide and batches that
    leave ranks without rows.
    """
    ended = run_ranks(
        scenarios.steps,
        job.training,
        job.prepared,
        world_size=world_size,
        rows=BATCHES,
        accumulations=ACCUMULATIONS,
    )
    for steps in succeeded(ended):
        assert len(steps) == len(ACCUMULATIONS) * len(BATCHES)
        for step, expected in zip(steps, reference * len(ACCUMULATIONS), strict=True):
            assert step.loss == pytest.approx(expected.loss, abs=1e-5)
            assert step.gradients.keys() == expected.gradients.keys()
            for name, gradient in step.gradients.items():
                np.testing.assert_allclose(gradient, expected.gradients[name], atol=1e-5, err_msg=name)


def test_gradients_are_not_nothing(reference: list[scenarios.Step]) -> None:
    """The comparison above is of gradients well above its tolerance, and of batches that differ."""
    for step in reference:
        assert max(float(np.abs(gradient).max()) for gradient in step.gradients.values()) > 1e-2
    assert len({round(step.loss, 4) for step in reference}) == len(reference)


@pytest.mark.parametrize("world_size", [2, 4])
def test_evaluation_counts_each_row_once(job: Job, world_size: int) -> None:
    """Scores of several ranks are those of one, though 37 rows do not divide; only rank 0 has them."""
    (alone,) = succeeded(run_ranks(scenarios.evaluate, job.training, job.prepared, world_size=1))
    first, *others = succeeded(
        run_ranks(scenarios.evaluate, job.training, job.prepared, world_size=world_size)
    )
    assert first == pytest.approx(alone, abs=1e-6)
    assert others == [{}] * (world_size - 1)
    assert round(alone["accuracy"] * 37, 6).is_integer()
