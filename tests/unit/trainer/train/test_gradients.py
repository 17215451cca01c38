"""The central promise: losses and gradients do not depend on the number of ranks or accumulation steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xeontrain_trainer.train import data
from xeontrain_trainer.train.config import parse_training
from xeontrain_trainer.train.files import find_sources

from tests.unit.trainer.train import scenarios, tiny
from tests.unit.trainer.train.ranks import run_ranks, succeeded

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]

# A full batch; one that no number of ranks divides; one smaller than four ranks; a single row.
BATCHES = [range(16), range(16, 29), range(30, 33), [33]]
ACCUMULATIONS = [1, 2, 3]


@pytest.fixture(scope="module")
def prepared(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> data.Prepared:
    folder = tmp_path_factory.mktemp("rows")
    train = tiny.write_csv(folder / "train.csv", tiny.rows(40))
    evaluate = tiny.write_csv(folder / "eval.csv", tiny.rows(37, seed=3))
    config = parse_training(tiny.training(tiny_model, train=[train], evaluate=[evaluate]))
    assert config.dataset.files is not None
    sources = find_sources(config.dataset.files, columns=config.dataset.columns)
    return data.prepare(config, sources=sources, state_dir=None, processes=1)


@pytest.fixture(scope="module")
def reference(prepared: data.Prepared) -> list[scenarios.Step]:
    (values,) = succeeded(run_ranks(scenarios.plain_steps, prepared, world_size=1, rows=BATCHES))
    return list(values)


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_gradients_are_those_of_one_process(
    prepared: data.Prepared, reference: list[scenarios.Step], world_size: int
) -> None:
    """Every rank has, before the optimizer, the gradient of the mean loss over the global batch (1e-5).

    For 1, 2 and 4 ranks, for 1 to 3 accumulation steps, for batches that ranks do not divide and batches that
    leave ranks without rows.
    """
    ended = run_ranks(
        scenarios.steps, prepared, world_size=world_size, rows=BATCHES, accumulations=ACCUMULATIONS
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
def test_evaluation_counts_each_row_once(prepared: data.Prepared, world_size: int) -> None:
    """Scores of several ranks are those of one, though 37 rows do not divide; only rank 0 has them."""
    (alone,) = succeeded(run_ranks(scenarios.evaluate, prepared, world_size=1))
    first, *others = succeeded(run_ranks(scenarios.evaluate, prepared, world_size=world_size))
    assert first == pytest.approx(alone, abs=1e-6)
    assert others == [{}] * (world_size - 1)
    assert round(alone["accuracy"] * 37, 6).is_integer()
