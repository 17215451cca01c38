"""The tasks of the built-in trainer, one file each. Nothing slow is imported before a task needs it."""

from __future__ import annotations

from collections.abc import Mapping

from ..config import TrainingConfig
from .causal_language_modeling import CausalLanguageModeling
from .image_classification import ImageClassification
from .question_answering import QuestionAnswering
from .task import Task
from .text_classification import TextClassification
from .token_classification import TokenClassification

TASKS: Mapping[str, type[Task]] = {
    "text-classification": TextClassification,
    "question-answering": QuestionAnswering,
    "token-classification": TokenClassification,
    "image-classification": ImageClassification,
    "causal-language-modeling": CausalLanguageModeling,
}


def task_of(config: TrainingConfig) -> Task:
    """The task that the job names, for this job's columns and hyperparameters."""
    return TASKS[config.task](config)
