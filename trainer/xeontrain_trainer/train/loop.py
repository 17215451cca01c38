"""The training loop: every step in view."""

from __future__ import annotations

import contextlib
import inspect
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
from .config import Hyperparameters
from .environment import Environment
from .errors import InterruptedRun, LossNotFiniteError
from .precision import Precision
from .progress import Progress
from .sampler import GlobalBatch, batches_in_epoch, global_batches, micro_batches
from .samples import Samples, summed_loss
from .stopwatch import Stopwatch
from .tasks.task import Task


@dataclass
class Training:
    """All that the steps work on. `model` is the plain model, `wrapped` the same in DDP (maybe compiled)."""

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
    parameters = training.parameters
    batches_an_epoch = batches_in_epoch(len(training.samples.lengths), batch_size=parameters.batch_size)
    steps_left = total_steps(len(training.samples.lengths), parameters=parameters)
    step, samples, seconds = 0, 0, 0.0
    for epoch in range(parameters.epochs):
        loss_sum, items, done = 0.0, 0, float(epoch)
        batches = global_batches(
            training.samples.lengths, batch_size=parameters.batch_size, seed=parameters.seed, epoch=epoch
        )
        for batch in batches:
            if steps_left == 0:
                break
            started = time.perf_counter()
            loss, busy = train_step(training, batch, step=step + 1)
            elapsed = time.perf_counter() - started
            step, steps_left = step + 1, steps_left - 1
            samples, seconds = samples + len(batch.rows), seconds + elapsed
            count = training.samples.count_items(batch.rows)
            loss_sum, items = loss_sum + loss * count, items + count
            done = epoch + (batch.number + 1) / batches_an_epoch
            training.progress.step(
                step, epoch=done, loss=loss, samples=len(batch.rows), seconds=elapsed, busy_seconds=busy
            )
        if items:
            yield Outcome(steps=step, samples=samples, seconds=seconds, epoch=done, loss=loss_sum / items)


def train_step(training: Training, batch: GlobalBatch, *, step: int) -> tuple[float, list[float]]:
    """One optimizer step on a global batch; returns its loss, the mean over all its items on all ranks, and
    for how many seconds each worker was busy with it, waiting for others not counted.

    `step` counts from 1. The weights change only when all ranks have found the loss and gradients finite.
    """
    environment, parameters = training.environment, training.parameters
    started = time.perf_counter()
    loss_sum = accumulate_gradients(training, batch)
    busy = [0.0] * environment.group_world_size
    busy[environment.group_rank] = (training.stopwatch.last - started) / environment.local_world_size
    norm = nn.utils.clip_grad_norm_(training.wrapped.parameters(), parameters.max_grad_norm or math.inf)
    stop = float(_stop_requested(environment.stop_file))
    loss_sum, stop, *busy = distributed.total([loss_sum, stop, *busy])
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
    if stop:
        raise InterruptedRun(f"stopped at request after step {step}")
    return loss, busy


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
