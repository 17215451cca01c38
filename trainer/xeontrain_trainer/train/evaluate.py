"""Accuracy, F1 and loss on the evaluation rows, each row computed by exactly one rank."""

from __future__ import annotations

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import nn

from . import distributed
from .batches import Tokens, summed_loss
from .environment import Environment
from .precision import Precision

_ROWS_AT_ONCE = 32


def evaluate(
    model: nn.Module, tokens: Tokens, *, precision: Precision, environment: Environment
) -> dict[str, float]:
    """`accuracy`, `f1` (macro average), `evalLoss` over all rows in rank 0; nothing in others. A collective.

    `model` is the plain one, not wrapped in DDP: ranks run different numbers of forward passes here.
    """
    longest_first = sorted(range(len(tokens.lengths)), key=lambda row: -tokens.lengths[row])
    mine = longest_first[environment.rank :: environment.world_size]
    num_classes = int(model.config.num_labels)  # type: ignore[union-attr, arg-type]
    confusion = torch.zeros(num_classes, num_classes, dtype=torch.int64)
    loss_sum = 0.0
    was_training = model.training
    model.eval()
    with torch.no_grad(), precision.autocast():
        for start in range(0, len(mine), _ROWS_AT_ONCE):
            batch = tokens.batch(mine[start : start + _ROWS_AT_ONCE])
            loss, logits = summed_loss(model, batch)
            loss_sum += float(loss)
            pairs = batch["labels"] * num_classes + logits.argmax(dim=-1)
            confusion += torch.bincount(pairs, minlength=num_classes**2).view(num_classes, num_classes)
    model.train(was_training)
    dist.all_reduce(confusion)
    (loss_sum,) = distributed.total([loss_sum])
    if not environment.is_main:
        return {}
    return {**scores(confusion.numpy()), "evalLoss": loss_sum / len(tokens.lengths)}


def scores(confusion: NDArray[np.int64]) -> dict[str, float]:
    """`accuracy` and macro `f1` of a confusion matrix: confusion[true, predicted] rows."""
    from sklearn.metrics import accuracy_score, f1_score

    true, predicted = np.nonzero(confusion)
    weights = confusion[true, predicted]
    return {
        "accuracy": float(accuracy_score(true, predicted, sample_weight=weights)),
        "f1": float(f1_score(true, predicted, sample_weight=weights, average="macro", zero_division=0.0)),
    }
