"""The central promise: losses and gradients do not depend on the number of ranks or accumulation steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from xeontrain_trainer.train import data

from tests.unit.trainer.train import jobs, tiny
from tests.unit.trainer.train.ranks import run_ranks, succeeded
from tests.unit.trainer.train.scenarios import Job, Seen, Step, batches, plain, watch

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]

ACCUMULATIONS = [1, 2, 3]
WORLD_SIZES = [1, 2, 4]
EPOCHS = 3


@pytest.fixture(scope="module")
def all_jobs(tiny_models: jobs.Models, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Job]:
    """A job of each task with its samples."""
    folder = tmp_path_factory.mktemp("rows")
    blocks = {task: jobs.job(task, models=tiny_models, folder=folder / task) for task in jobs.TASKS}
    return {task: Job(block, tiny.prepare(block)) for task, block in blocks.items()}


@pytest.fixture(scope="module")
def reference(all_jobs: Mapping[str, Job]) -> Mapping[str, list[Step]]:
    """Each task's steps by transformers alone."""
    (steps,) = succeeded(run_ranks(plain, all_jobs, world_size=1))
    return dict(steps)


@pytest.fixture(scope="module")
def seen(all_jobs: Mapping[str, Job]) -> Mapping[int, list[Mapping[str, Seen]]]:
    """What each rank sees of each task, for each number of ranks: one group of processes does all tasks."""
    return {
        world_size: succeeded(
            run_ranks(
                watch,
                all_jobs,
                world_size=world_size,
                accumulations=ACCUMULATIONS,
                epochs=EPOCHS,
            )
        )
        for world_size in WORLD_SIZES
    }


@pytest.mark.parametrize("world_size", WORLD_SIZES)
@pytest.mark.parametrize("task", jobs.TASKS)
def test_gradients_are_those_of_one_process(
    seen: Mapping[int, list[Mapping[str, Seen]]],
    reference: Mapping[str, list[Step]],
    task: str,
    world_size: int,
) -> None:
    """Every rank has, before the optimizer, the gradient of the mean loss over the global batch (1e-5).

    For 1, 2 and 4 ranks, for 1 to 3 accumulation steps, for batches that ranks do not divide and batches that
    leave ranks without samples. A sample has its own number of items: words, positions, classes.
    """
    expected = reference[task] * len(ACCUMULATIONS)
    for rank in seen[world_size]:
        for step, other in zip(rank[task].steps, expected, strict=True):
            assert step.loss == pytest.approx(other.loss, abs=1e-5)
            assert step.gradients.keys() == other.gradients.keys()
            for name, gradient in step.gradients.items():
                np.testing.assert_allclose(gradient, other.gradients[name], atol=1e-5, err_msg=name)


@pytest.mark.parametrize("task", jobs.TASKS)
def test_gradients_are_not_nothing(reference: Mapping[str, list[Step]], task: str) -> None:
    """The comparison above is of gradients well above its tolerance, and of batches that differ."""
    for step in reference[task]:
        assert max(float(np.abs(gradient).max()) for gradient in step.gradients.values()) > 1e-2
    assert len({round(step.loss, 7) for step in reference[task]}) == len(batches(16))


@pytest.mark.parametrize("task", [task for task in jobs.TASKS if task != "image-classification"])
def test_batches_are_of_several_lengths(all_jobs: Mapping[str, Job], task: str) -> None:
    """The comparison above is of batches that need padding."""
    lengths = data.load_samples(all_jobs[task].prepared, "train")["length"][:]
    assert any(len({lengths[row] for row in rows}) > 1 for rows in batches(len(lengths)))


@pytest.mark.parametrize("world_size", WORLD_SIZES)
@pytest.mark.parametrize("task", jobs.TASKS)
def test_each_sample_is_trained_on_once_an_epoch(
    seen: Mapping[int, list[Mapping[str, Seen]]], all_jobs: Mapping[str, Job], task: str, world_size: int
) -> None:
    """In three real epochs with dropout and length groups the ranks together see each sample once an epoch.

    And in the same order, for any number of ranks: step by step they see the samples that one rank sees.
    """
    count = all_jobs[task].prepared.train_samples
    ranks = [rank[task].trained_on for rank in seen[world_size]]
    (alone,) = (rank[task].trained_on for rank in seen[1])
    for step, expected in zip(zip(*ranks, strict=True), alone, strict=True):
        assert {epoch for epoch, _ in step} == {expected[0]}
        assert sorted(row for _, rows in step for row in rows) == sorted(expected[1])
    for epoch in range(EPOCHS):
        rows = [row for steps in ranks for number, rows in steps if number == epoch for row in rows]
        assert sorted(rows) == list(range(count))


@pytest.mark.parametrize("task", jobs.TASKS)
def test_training_learns(seen: Mapping[int, list[Mapping[str, Seen]]], task: str) -> None:
    """Three epochs on made-up rows with a pattern leave a model that is better on rows it has not seen."""
    for world_size in WORLD_SIZES:
        rank = seen[world_size][0][task]
        assert rank.learned["evalLoss"] < 0.95 * rank.evaluation["evalLoss"]


@pytest.mark.parametrize("task", jobs.TASKS)
def test_evaluation_counts_each_sample_once(seen: Mapping[int, list[Mapping[str, Seen]]], task: str) -> None:
    """Scores of several ranks are those of one, though their rows do not divide; only rank 0 has them."""
    alone = seen[1][0][task].evaluation
    assert alone["evalLoss"] > 0
    for world_size in WORLD_SIZES[1:]:
        first, *others = (rank[task].evaluation for rank in seen[world_size])
        assert first == pytest.approx(alone, rel=1e-5, abs=1e-6)
        assert others == [{}] * (world_size - 1)
