"""From config and samples to everything that the loop works on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from ..plan import Plan
from .affinity import place_threads
from .backend import Backend
from .choices import Choice, Work, choose
from .config import Hyperparameters, TrainingConfig
from .data import Prepared, load_samples
from .environment import Environment
from .loop import Training, total_steps, wrap
from .model import freeze_unused, kept_buffers, load_model, make_optimizer, make_schedule
from .precision import FP32, Precision
from .progress import Progress
from .sampler import BATCHES_A_GROUP, global_batches, micro_batches
from .samples import Samples, summed_loss
from .stopwatch import Stopwatch
from .tasks.task import Task


def build_training(
    config: TrainingConfig,
    *,
    task: Task,
    prepared: Prepared,
    environment: Environment,
    backend: Backend,
    plan: Plan | None = None,
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
    choice, unused = _try_out(model, samples, task=task, config=config, environment=environment, plan=plan)
    # An extension may have rebuilt it, and put all of it into training mode.
    model, precision = task.ready(choice.model), choice.precision
    model.zero_grad(set_to_none=True)
    steps = total_steps(len(samples.lengths), parameters=parameters)
    progress = Progress(
        environment.progress_file,
        total_steps=steps,
        precision=precision.name,
        backend=backend.label,
        enabled=environment.is_main,
    )
    progress.begin(_decisions(choice, backend=backend))
    progress.say(
        f"training on {prepared.train_rows} rows ({prepared.train_samples} samples) in {steps} steps of "
        f"{parameters.batch_size}, {environment.world_size} ranks x {torch.get_num_threads()} threads"
    )
    for line in _in_words(choice, backend=backend, config=config, unused=unused):
        progress.say(line)
    # Dropout differs between ranks, and begins at the same point whatever was probed before.
    torch.manual_seed(parameters.seed + environment.rank)
    return Training(
        model=model,
        wrapped=wrap(model, compile_model=config.compile),
        task=task,
        processor=processor,
        samples=samples,
        optimizer=choice.optimizer,
        schedule=make_schedule(choice.optimizer, parameters=parameters, total_steps=steps),
        parameters=parameters,
        precision=precision,
        environment=environment,
        progress=progress,
        stopwatch=Stopwatch(model),
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


def _typical_rows(
    lengths: Sequence[int], parameters: Hyperparameters, *, environment: Environment
) -> Sequence[int]:
    """This rank's first piece of a batch of middling length, of those that the first epoch begins with."""
    batches = itertools.islice(
        global_batches(lengths, batch_size=parameters.batch_size, seed=parameters.seed, epoch=0),
        BATCHES_A_GROUP,
    )
    by_size = sorted(batches, key=lambda batch: sum(lengths[row] for row in batch.rows))
    typical = by_size[len(by_size) // 2]
    mine = typical.slice_of(environment.rank, world_size=environment.world_size) or typical.rows[:1]
    return micro_batches(mine, pieces=parameters.accumulation_steps)[0]


def _try_out(
    model: nn.Module,
    samples: Samples,
    *,
    task: Task,
    config: TrainingConfig,
    environment: Environment,
    plan: Plan | None,
) -> tuple[Choice, list[str]]:
    """What all ranks decide by computing with the model, and the names of the parameters that they freeze."""
    parameters = config.hyperparameters

    def backward(model: nn.Module, rows: Sequence[int], precision: Precision) -> None:
        with precision.autocast():
            loss, _ = summed_loss(model, samples.batch(rows, epoch=0), task=task)
        loss.backward()

    with kept_buffers(model):
        unused = freeze_unused(model, backward=lambda: backward(model, [0], FP32))
        # That made the threads, and what is measured next should run where the run itself will.
        place_threads(plan, local_rank=environment.local_rank)
        choice = choose(
            model,
            make_optimizer=lambda model: make_optimizer(model, parameters=parameters),
            work=Work(backward, rows=_typical_rows(samples.lengths, parameters, environment=environment)),
            config=config,
            environment=environment,
        )
    return choice, unused


def _in_words(
    choice: Choice, *, backend: Backend, config: TrainingConfig, unused: Sequence[str]
) -> Iterator[str]:
    """The decisions for people, a line each. `unused`: parameters that are not trained."""
    precision, extension = choice.precision, choice.extension
    yield f"{backend.label}: {backend.reason}"
    yield f"{'warning: ' if precision.emulated else ''}{precision.name}: {precision.reason}"
    if config.ipex != "Disabled":
        used = "used" if extension.used else "not used"
        yield f"Intel Extension for PyTorch is {used}: {extension.reason}"
    if unused:
        yield f"not trained, as the task does not use them: {', '.join(unused)}"


def _decisions(choice: Choice, *, backend: Backend) -> dict[str, object]:
    """What the ranks decided, under the names of docs/contract.md."""
    precision, rates = choice.precision, choice.precision.rates
    measured = {"fp32SamplesPerSecond": rates.fp32, "bf16SamplesPerSecond": rates.bf16} if rates else {}
    return {
        "precisionReason": precision.reason,
        "precisionEmulated": precision.emulated,
        **{name: round(value, 3) for name, value in measured.items()},
        "backendReason": backend.reason,
        "ipexUsed": choice.extension.used,
        "ipexReason": choice.extension.reason,
    }
