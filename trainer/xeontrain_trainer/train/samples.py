"""The samples of a split as tensors, and what the model makes of them: the loss, summed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from .tasks.task import Collator, Task

if TYPE_CHECKING:
    import datasets

_FOR_THE_LOOP = ("row", "length", "items")
_MODEL_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "pixel_values")


@dataclass(frozen=True)
class Samples:
    """The samples of a split. `lengths[i]` and `items[i]` are those of sample i; `table` has all columns."""

    table: datasets.Dataset
    lengths: tuple[int, ...]
    items: tuple[int, ...]
    _inputs: datasets.Dataset
    _collate: Collator
    _task: Task

    @classmethod
    def of(cls, table: datasets.Dataset, *, task: Task, processor: Any) -> Samples:
        """For a table with the columns that the task's encoder makes."""
        apart = [name for name in (*_FOR_THE_LOOP, *task.set_aside) if name in table.column_names]
        lengths, items = (tuple(table.data.column(name).to_pylist()) for name in ("length", "items"))
        return cls(
            table=table,
            lengths=lengths,
            items=items,
            _inputs=table.remove_columns(apart),
            _collate=task.collator(processor),
            _task=task,
        )

    def batch(self, rows: Sequence[int], *, epoch: int | None = None) -> dict[str, torch.Tensor]:
        """The model's inputs and what is to be predicted, for the samples `rows` in their order.

        As they are trained on in `epoch`; without it, as they are.
        """
        columns = self._inputs[list(rows)]
        samples = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        if epoch is not None:
            samples = self._task.augment(samples, numbers=rows, epoch=epoch)
        return dict(self._collate(samples))

    def count_items(self, rows: Sequence[int]) -> int:
        """The items of these samples, all ranks' included: every rank knows all samples' numbers of items.

        At least 1: the loss of samples without items is 0, and must not be divided by it.
        """
        return max(1, sum(self.items[row] for row in rows))


def summed_loss(
    model: nn.Module, batch: Mapping[str, torch.Tensor], *, task: Task
) -> tuple[torch.Tensor, Any]:
    """The loss summed over the batch's items (a scalar), and the model's outputs.

    Summed, not averaged: only sums over ranks and pieces add up to the loss of the global batch.
    """
    outputs = model(**{name: tensor for name, tensor in batch.items() if name in _MODEL_INPUTS})
    return task.summed_loss(outputs, batch), outputs
