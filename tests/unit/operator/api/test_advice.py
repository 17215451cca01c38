"""What is allowed and may surprise is said, and nothing else is."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from xeontrain_operator.api.advice import COLUMNS_OF, advice
from xeontrain_operator.api.v1alpha1 import parse_job
from xeontrain_operator.api.v1alpha1.training import Task
from xeontrain_trainer.train.config import TASKS as CONFIG_TASKS
from xeontrain_trainer.train.config import Columns, Dataset, TrainingConfig
from xeontrain_trainer.train.tasks import TASKS

from tests.contract.cases.edits import COMMAND, TRAINING, Job, edited

KEPT = {"spec.storage": {"size": "1Gi"}}


@pytest.mark.parametrize(
    ("base", "edits", "paths"),
    [
        (TRAINING, KEPT, []),
        (TRAINING, {}, ["spec.storage"]),
        (COMMAND, {}, []),
        (TRAINING, {**KEPT, "spec.workers": 3}, []),
        (
            TRAINING,
            {**KEPT, "spec.workers": 3, "spec.ranksPerWorker": 1},
            ["spec.training.hyperparameters.batchSize"],
        ),
        (TRAINING, {**KEPT, "spec.workers": 2, "spec.ranksPerWorker": 4}, []),
        (COMMAND, {"spec.workers": 3, "spec.ranksPerWorker": 3}, []),
        (COMMAND, {"spec.resources.memory": 32}, ["spec.resources.memory"]),
        (
            TRAINING,
            {**KEPT, "spec.training.dataset.columns": {"textPair": "b", "tags": "ner", "label": "l"}},
            ["spec.training.dataset.columns.tags"],
        ),
        (
            TRAINING,
            {
                **KEPT,
                "spec.training.task": "causal-language-modeling",
                "spec.training.dataset.columns": {"text": "a", "textPair": "b"},
            },
            ["spec.training.dataset.columns.textPair"],
        ),
        (COMMAND, {"spec.resources.memory": "256Mi"}, []),
        (COMMAND, {"spec.distributed.backend": "CCL"}, ["spec.distributed.backend"]),
        (TRAINING, {**KEPT, "spec.distributed.backend": "CCL"}, []),
    ],
    ids=[
        "fine",
        "no-storage",
        "command",
        "auto",
        "uneven",
        "even",
        "command-uneven",
        "memory-without-unit",
        "column-of-another-task",
        "pair-of-another-task",
        "little-memory",
        "backend-of-a-script",
        "backend-of-a-training",
    ],
)
def test_advice(base: Job, edits: dict[str, Any], paths: list[str]) -> None:
    """Each sentence stands at its field."""
    assert [problem.path for problem in advice(parse_job(edited(base, edits)).spec)] == paths


@pytest.mark.parametrize("task", TASKS)
def test_columns_are_those_that_the_trainer_reads(task: str) -> None:
    """What is said to be read is what the trainer's task reads."""
    dataset = Dataset(columns=Columns(text_pair="b"))
    fields = TASKS[task](TrainingConfig(task=task, model="m", dataset=dataset)).columns()
    assert [field.removeprefix("spec.training.dataset.columns.") for field in fields] == list(
        COLUMNS_OF[task]
    )


def test_tasks_are_those_of_the_trainer() -> None:
    """The resource, the trainer's config and its tasks know the same tasks."""
    assert set(get_args(Task)) == set(TASKS) == set(CONFIG_TASKS) == set(COLUMNS_OF)
