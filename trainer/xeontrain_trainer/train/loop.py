"""The training loop: every step in view."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from . import distributed
from .checkpoints.keeper import Keeper
from .config import Hyperparameters
from .environment import Environment
from .errors import InterruptedRun, LossNotFiniteError
from .position import Position
from .precision import Precision
from .progress import Progress
from .sampler import GlobalBatch, batches_in_epoch, global_batches, micro_batches
from .samples import Samples, summed_loss
from .stopwatch import Stopwatch
from .tasks.task import Task


@dataclass
class Training:
    """All that the steps work on. `model` is the plain model, `wrapped` the same in DDP (maybe compiled);
    `start` is where the training begins, or goes on from a checkpoint."""

    model: nn.Module
    wrapped: DistributedDataParallel
    task: Task
    processor: Any
    samples: Samples
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LambdaLR
    parameters: Hyperparameters
    precision: Precision
    environment: Environment
    progress: Progress
    stopwatch: Stopwatch
    keeper: Keeper
    start: Position


@dataclass(frozen=True)
class StepResult:
    """What all ranks know after a step.

    `loss`: the mean over all items of the global batch. `busy_seconds`: by worker, how long it was busy with
    the step, waiting for others not counted. `save`, `stop`: whether a checkpoint is due, and whether some
    launcher asks its ranks to stop.
    """

    loss: float
    busy_seconds: list[float]
    save: bool
    stop: bool


@dataclass(frozen=True)
class Outcome:
    """A training so far: optimizer steps, samples, seconds in steps, epochs, mean loss of the last epoch."""

    steps: int
    samples: int
    seconds: float
    epoch: float
    loss: float

    def metrics(self) -> dict[str, float]:
        """As the job's result names them."""
        return {
            "epochs": round(self.epoch, 4),
            "steps": self.steps,
            "trainLoss": self.loss,
            "trainSeconds": round(self.seconds, 3),
            "trainSamplesPerSecond": round(self.samples / max(self.seconds, 1e-9), 3),
        }


def total_steps(num_samples: int, *, parameters: Hyperparameters) -> int:
    """Optimizer steps of the whole run."""
    steps = parameters.epochs * batches_in_epoch(num_samples, batch_size=parameters.batch_size)
    return min(steps, parameters.max_steps or steps)


def train_epochs(training: Training) -> Iterator[Outcome]:
    """Train; yields after each epoch (and after the last step, where maxSteps ends one early).

    Raises LossNotFiniteError or InterruptedRun in all ranks at the same step.
    """
    parameters, lengths = training.parameters, training.samples.lengths
    batches_an_epoch = batches_in_epoch(len(lengths), batch_size=parameters.batch_size)
    last_step = total_steps(len(lengths), parameters=parameters)
    position = training.start
    for epoch in range(position.epoch, parameters.epochs):
        batches = global_batches(lengths, batch_size=parameters.batch_size, seed=parameters.seed, epoch=epoch)
        for batch in itertools.islice(batches, position.batch, None):
            if position.step == last_step:
                break
            position = _advance(training, batch, position, batches_an_epoch=batches_an_epoch)
        if position.items:
            yield _outcome(position, batches_an_epoch=batches_an_epoch)
        position = position.next_epoch()


def _advance(
    training: Training, batch: GlobalBatch, position: Position, *, batches_an_epoch: int
) -> Position:
    """One step further, with the report of it, and a checkpoint where it is time."""
    started = time.perf_counter()
    done = train_step(training, batch, step=position.step + 1)
    elapsed = time.perf_counter() - started
    rows, items = len(batch.rows), training.samples.count_items(batch.rows)
    position = position.after(rows=rows, items=items, loss=done.loss, seconds=elapsed)
    training.progress.step(
        position.step,
        epoch=position.epoch + position.batch / batches_an_epoch,
        loss=done.loss,
        samples=rows,
        seconds=elapsed,
        busy_seconds=done.busy_seconds,
    )
    kept = (done.save or done.stop) and save(training, position)
    if done.stop:
        why_lost = "" if kept else "; nothing was saved, as the job has no storage (spec.storage)"
        raise InterruptedRun(f"stopped at request after step {position.step}{why_lost}")
    return position


def save(training: Training, position: Position) -> bool:
    """Keep a checkpoint; False where the job has no storage. A collective: all ranks call it."""
    kept = training.keeper.save(
        position, model=training.model, optimizer=training.optimizer, schedule=training.schedule
    )
    if kept:
        training.progress.saved(position.step)
    return kept


def _outcome(position: Position, *, batches_an_epoch: int) -> Outcome:
    return Outcome(
        steps=position.step,
        samples=position.samples,
        seconds=position.seconds,
        epoch=position.epoch + position.batch / batches_an_epoch,
        loss=position.loss_sum / position.items,
    )


def train_step(training: Training, batch: GlobalBatch, *, step: int) -> StepResult:
    """One optimizer step on a global batch. `step` counts from 1.

    The weights change only when all ranks have found the loss and gradients finite.
    """
    environment, parameters = training.environment, training.parameters
    started = time.perf_counter()
    loss_sum = accumulate_gradients(training, batch)
    busy = [0.0] * environment.group_world_size
    busy[environment.group_rank] = (training.stopwatch.last - started) / environment.local_world_size
    norm = nn.utils.clip_grad_norm_(training.wrapped.parameters(), parameters.max_grad_norm or math.inf)
    # One exchange tells all ranks all that they must agree on.
    wishes = [float(_stop_requested(environment.stop_file)), float(training.keeper.is_due(step))]
    loss_sum, stop, due, *busy = distributed.total([loss_sum, *wishes, *busy])
    loss = loss_sum / training.samples.count_items(batch.rows)
    if not math.isfinite(loss) or not math.isfinite(float(norm)):
        raise LossNotFiniteError(
            "spec.training.hyperparameters.learningRate",
            cause=f"loss {loss:.4g} and gradient norm {float(norm):.4g} at step {step} are not both finite "
            f"(learning rate {training.schedule.get_last_lr()[0]:.3g} of {parameters.learning_rate:.3g})",
            remedy="Write a lower learningRate, a larger warmupRatio, or precision: FP32",
        )
    training.optimizer.step()
    training.schedule.step()
    training.optimizer.zero_grad(set_to_none=True)
    return StepResult(loss=loss, busy_seconds=busy, save=due > 0, stop=stop > 0)


def accumulate_gradients(training: Training, batch: GlobalBatch) -> float:
    """Leave the gradient of the global batch's mean loss in the model; returns this rank's sum of losses.

    DDP averages over ranks, so each rank scales its sum by world_size / items of the global batch.
    """
    environment, parameters = training.environment, training.parameters
    mine = batch.slice_of(environment.rank, world_size=environment.world_size)
    # A rank without rows computes one of the others' with weight 0: it must take part in the exchange.
    weight = environment.world_size / training.samples.count_items(batch.rows) if mine else 0.0
    pieces = micro_batches(mine or batch.rows[:1], pieces=parameters.accumulation_steps)
    loss_sum = 0.0
    for number, rows in enumerate(pieces, start=1):
        # Gradients are exchanged once a step, with the last piece; numbers of pieces may differ by rank.
        exchange = contextlib.nullcontext() if number == len(pieces) else training.wrapped.no_sync()
        with exchange:
            with training.precision.autocast():
                inputs = training.samples.batch(rows, epoch=batch.epoch)
                loss, _ = summed_loss(training.wrapped, inputs, task=training.task)
            (loss * weight).backward()
        loss_sum += float(loss.detach())
    return loss_sum if mine else 0.0


def wrap(model: nn.Module, *, compile_model: bool) -> DistributedDataParallel:
    """The model in DDP, compiled first where the job asks for it.

    Buffers are constants in these models, and ranks may run different numbers of forward passes, so they are
    not sent around with each of them.
    """
    compiled: Any = torch.compile(model) if compile_model else model
    # The option was renamed in torch 2.15.
    known = inspect.signature(DistributedDataParallel.__init__).parameters
    option = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    options: dict[str, Any] = {"gradient_as_bucket_view": True, option: False}
    return DistributedDataParallel(compiled, **options)


def _stop_requested(stop_file: str | None) -> bool:
    return stop_file is not None and os.path.exists(stop_file)
