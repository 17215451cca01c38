"""What a task is: all in which tasks differ, in the order in which a run needs it. The loop is one for all.

A *row* is what the data has; a *sample* is what the model is given at once: a row, or a part of one. The loss
of a step is the sum over the *items* of its samples (what is predicted: classes, words, answer positions)
divided by their number, so a sample says how many items it has.

Modules of tasks import no library at their top: what is wrong with the data is told before torch is loaded.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..config import TrainingConfig
from ..files import TABLES
from ..labels import Labels

if TYPE_CHECKING:
    import datasets
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import nn

    from ..rows import Rows

COLUMNS = "spec.training.dataset.columns"
NOT_COUNTED = -100
"""The label of a token that is no item, as the cross-entropy of torch passes over it."""

Encoder = Callable[[dict[str, list[Any]], list[int]], dict[str, list[Any]]]
Collator = Callable[[list[dict[str, Any]]], Mapping[str, "torch.Tensor"]]


class Task(abc.ABC):
    """One task for one job. Every rank makes its own from the same config; it holds no other state."""

    auto_model: ClassVar[str]
    """The class of transformers that loads a model with the task's head."""
    formats: ClassVar[Mapping[str, str]] = TABLES
    """Suffix of a file -> its format, of those that the task reads."""
    set_aside: ClassVar[tuple[str, ...]] = ()
    """Columns of the samples that are for the metrics alone, so that batches do without them."""
    keeps_rows: ClassVar[bool] = False
    """Whether the metrics need the evaluation rows themselves."""
    rows_at_once: ClassVar[int] = 1000
    """Rows that a process encodes, and keeps in memory, at once."""
    rows_a_process: ClassVar[int] = 4000
    """Rows from which on one more process encodes them: below, it costs more than it saves."""

    def __init__(self, config: TrainingConfig) -> None:
        self.config = config
        self.names = config.dataset.columns

    # The rows.

    @abc.abstractmethod
    def columns(self) -> dict[str, str]:
        """The columns that the task reads: field of the resource -> name in the data."""

    @abc.abstractmethod
    def check(self, rows: Rows) -> Rows:
        """`rows`, of which the table has the task's columns, in the form that `encoder` takes.

        Raises BadDataError, with the field of the column, for rows that cannot be learned from.
        """

    def labels(self, rows: Mapping[str, Rows]) -> tuple[str, ...]:
        """The names of the classes, in the order of their numbers; none where the task has no classes."""
        return ()

    # From rows to samples, once in each worker.

    def load_processor(self, model_folder: str) -> Any:
        """What makes the model's input of a row, and is saved beside the model: by default its tokenizer."""
        from ..tokenizer import check_length, load_tokenizer

        tokenizer = load_tokenizer(model_folder)
        check_length(self.config.hyperparameters.max_length, tokenizer=tokenizer, model_folder=model_folder)
        return tokenizer

    @abc.abstractmethod
    def encoder(self, processor: Any, *, labels: Sequence[str], evaluation: bool) -> Encoder:
        """The function from a batch of rows (column -> values) and their numbers to a batch of samples.

        A sample has what `collator` takes, `row` (the number of its row), `length` (its size: samples of
        like length come together) and `items`; for `evaluation` also the columns that are `set_aside`.
        """

    def arrange(self, samples: datasets.Dataset) -> datasets.Dataset:
        """The samples of all rows of a split, where they are not to be left as they are."""
        return samples

    # From samples to a loss, at each step.

    @abc.abstractmethod
    def collator(self, processor: Any) -> Collator:
        """The function from samples to tensors, padded to the longest of them."""

    def augment(
        self, samples: list[dict[str, Any]], *, numbers: Sequence[int], epoch: int
    ) -> list[dict[str, Any]]:
        """The samples as `epoch` trains on them: a function of the seed, the epoch and their numbers."""
        return samples

    def model_options(self, labels: Sequence[str]) -> dict[str, Any]:
        """What the model's config is told of the task, for a head that fits."""
        return {"id2label": dict(enumerate(labels)), "label2id": Labels(tuple(labels)).numbers()}

    def ready(self, model: nn.Module) -> nn.Module:
        """The model as it is trained. Raises BadConfigError where it cannot learn the task."""
        return model

    @abc.abstractmethod
    def summed_loss(self, outputs: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The loss of the model's `outputs` for `batch`, float32, a scalar: summed over all items."""

    # How good the model is.

    @property
    @abc.abstractmethod
    def prediction_width(self) -> int:
        """How many numbers a sample's prediction has."""

    @abc.abstractmethod
    def predictions(self, outputs: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The predictions in `outputs`: [samples, prediction_width], whole numbers below 2**24 or scores."""

    @abc.abstractmethod
    def metrics(
        self,
        predictions: NDArray[np.float32],
        *,
        loss: float,
        samples: datasets.Dataset,
        rows: datasets.Dataset | None,
        labels: Sequence[str],
    ) -> dict[str, float]:
        """The metrics by name. `predictions[i]` is that of samples[i]; `loss`: the mean over all items."""
