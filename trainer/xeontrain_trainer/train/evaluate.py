"""Loss and the task's metrics on the evaluation rows, each sample computed by exactly one rank."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn

from . import distributed
from .data import Prepared, load_eval_rows
from .loop import Training
from .sampler import micro_batches
from .samples import Samples, summed_loss


def evaluate(training: Training, samples: Samples, *, prepared: Prepared) -> dict[str, float]:
    """`evalLoss`, the mean over all items, and the task's metrics in rank 0; nothing in others.

    A collective: all ranks call it.
    """
    task, environment = training.task, training.environment
    longest_first = sorted(range(len(samples.lengths)), key=lambda row: -samples.lengths[row])
    mine = longest_first[environment.rank :: environment.world_size]
    # Each rank fills its samples' rows, the others hold zeros there: their sum is all predictions.
    predictions = torch.zeros(len(samples.lengths), task.prediction_width)
    loss_sum = 0.0
    with _evaluating(training.model), training.precision.autocast():
        for rows in micro_batches(mine, pieces=-(-len(mine) // _samples_at_once(training))) if mine else ():
            batch = samples.batch(rows)
            # Not the model in DDP: ranks run different numbers of forward passes here.
            batch_loss, outputs = summed_loss(training.model, batch, task=task)
            loss_sum += float(batch_loss)
            predictions[torch.tensor(rows)] = task.predictions(outputs, batch).float()
    if task.prediction_width:
        dist.all_reduce(predictions)
    (loss_sum,) = distributed.total([loss_sum])
    if not environment.is_main:
        return {}
    loss = loss_sum / samples.count_items(range(len(samples.lengths)))
    metrics = task.metrics(
        predictions.numpy(),
        loss=loss,
        samples=samples.table,
        rows=load_eval_rows(prepared, task=task),
        labels=prepared.labels,
    )
    return {**metrics, "evalLoss": loss}


def _samples_at_once(training: Training) -> int:
    """As many as a training step computes at once: for so many the memory is known to suffice."""
    parameters, world_size = training.parameters, training.environment.world_size
    return -(-parameters.batch_size // (world_size * parameters.accumulation_steps))


@contextlib.contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, without gradients; afterwards each module is in the mode in which it was."""
    trained = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module in trained:
            module.training = True
