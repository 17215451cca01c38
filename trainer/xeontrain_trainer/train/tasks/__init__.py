"""The tasks of the built-in trainer, one file each. Nothing slow is imported before a task needs it."""

from __future__ import annotations

from collections.abc import Mapping

from ..config import TrainingConfig
from .task import Task
from .text_classification import TextClassification

TASKS: Mapping[str, type[Task]] = {
    "text-classification": TextClassification,
}


def task_of(config: TrainingConfig) -> Task:
    """The task that the job names, for this job's columns and hyperparameters."""
    return TASKS[config.task](config)
