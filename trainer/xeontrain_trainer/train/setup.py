"""From config and samples to everything that the loop works on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import ipex
from .config import TrainingConfig
from .data import Prepared, load_samples
from .environment import Environment
from .loop import Training, total_steps, wrap
from .model import freeze_unused, load_model, make_optimizer, make_schedule
from .precision import FP32, Precision, best_seconds, decide, has_native_bf16
from .progress import Progress
from .sampler import global_batches, micro_batches
from .samples import Samples, summed_loss
from .tasks.task import Task


def build_training(
    config: TrainingConfig, *, task: Task, prepared: Prepared, environment: Environment, backend: str
) -> Training:
    """Load the model, choose the precision with all ranks, and set up optimizer, schedule and progress."""
    parameters = config.hyperparameters
    processor = task.load_processor(prepared.model_folder)
    samples = Samples.of(load_samples(prepared, "train"), task=task, processor=processor)
    model = load_model(
        prepared.model_folder,
        task=task,
        labels=prepared.labels,
        dropout=parameters.dropout,
        seed=parameters.seed,
    )
    _set_padding(model, processor)

    def backward(rows: Sequence[int], precision: Precision) -> None:
        with precision.autocast():
            loss, _ = summed_loss(model, samples.batch(rows), task=task)
        loss.backward()

    unused = freeze_unused(model, backward=lambda: backward([0], FP32))
    precision = _decide_precision(backward, lengths=samples.lengths, config=config, environment=environment)
    model.zero_grad(set_to_none=True)
    optimizer = make_optimizer(model, parameters=parameters)
    ipex_problem = None
    if config.ipex == "Enabled":
        model, optimizer, ipex_problem = ipex.optimize(model, optimizer, dtype=precision.dtype)
    steps = total_steps(len(samples.lengths), parameters=parameters)
    progress = Progress(
        environment.progress_file,
        total_steps=steps,
        precision=precision.name,
        backend=backend,
        enabled=environment.is_main,
    )
    progress.say(
        f"training on {prepared.train_rows} rows in {steps} steps of {parameters.batch_size}, "
        f"{environment.world_size} ranks x {torch.get_num_threads()} threads, {backend}"
    )
    progress.say(f"{'warning: ' if precision.warning else ''}{precision.name}: {precision.reason}")
    if ipex_problem:
        progress.say(f"warning: Intel Extension for PyTorch is not used: {ipex_problem}")
    if unused:
        progress.say(f"not trained, as the task does not use them: {', '.join(unused)}")
    # Dropout differs between ranks, and begins at the same point whatever was probed before.
    torch.manual_seed(parameters.seed + environment.rank)
    return Training(
        model=model,
        wrapped=wrap(model, compile_model=config.compile),
        task=task,
        processor=processor,
        samples=samples,
        optimizer=optimizer,
        schedule=make_schedule(optimizer, parameters=parameters, total_steps=steps),
        parameters=parameters,
        precision=precision,
        environment=environment,
        progress=progress,
    )


def evaluation_samples(prepared: Prepared, *, task: Task, processor: object) -> Samples | None:
    """Those of the evaluation rows; None where the job has none."""
    if prepared.eval_rows is None:
        return None
    return Samples.of(load_samples(prepared, "eval"), task=task, processor=processor)


def _set_padding(model: Any, processor: Any) -> None:
    """A model of the GPT kind finds the end of a text by its padding, and often has none of its own."""
    if getattr(model.config, "pad_token_id", None) is None and hasattr(processor, "pad_token_id"):
        model.config.pad_token_id = processor.pad_token_id


def _decide_precision(
    backward: Callable[[Sequence[int], Precision], None],
    *,
    lengths: Sequence[int],
    config: TrainingConfig,
    environment: Environment,
) -> Precision:
    """The precision of the run, measured, where it must be, on the first batch of this rank.

    `backward(rows, precision)` computes the gradients of these samples.
    """
    parameters = config.hyperparameters

    def seconds(precision: Precision) -> float:
        first = next(global_batches(lengths, batch_size=parameters.batch_size, seed=parameters.seed, epoch=0))
        mine = first.slice_of(environment.rank, world_size=environment.world_size) or first.rows[:1]
        rows = micro_batches(mine, pieces=parameters.accumulation_steps)[0]
        return best_seconds(lambda: backward(rows, precision))

    return decide(config.precision, native=has_native_bf16(), seconds=seconds)
