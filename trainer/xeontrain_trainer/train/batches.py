"""Tokens to tensors, and what the model makes of them: logits and the summed loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    import datasets


@dataclass(frozen=True)
class Tokens:
    """The tokenized rows of a split. `lengths[i]`: tokens of row i. `pad`: transformers' collator."""

    table: datasets.Dataset
    lengths: tuple[int, ...]
    pad: Any

    @classmethod
    def of(cls, table: datasets.Dataset, *, tokenizer: Any) -> Tokens:
        """For a table with the columns that `data.Prepared` describes."""
        from transformers import DataCollatorWithPadding

        lengths = tuple(table.data.column("length").to_pylist())
        return cls(
            table=table.remove_columns("length"), lengths=lengths, pad=DataCollatorWithPadding(tokenizer)
        )

    def batch(self, rows: Sequence[int]) -> dict[str, torch.Tensor]:
        """input_ids, attention_mask (and token_type_ids): [rows, tokens of the longest]; labels: [rows]."""
        columns = self.table[list(rows)]
        items = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        return dict(self.pad(items))


def summed_loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss summed over the rows (a scalar), and the logits [rows, classes], both float32.

    Summed, not averaged: only sums over ranks and pieces add up to the loss of the global batch.
    """
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    logits = model(**inputs).logits.float()
    return functional.cross_entropy(logits, batch["labels"], reduction="sum"), logits
