"""From config and samples to everything that the loop works on."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ..plan import Plan
from .affinity import place_threads
from .backend import Backend
from .checkpoints.keeper import Keeper, identity_of, shelf_of
from .checkpoints.manifest import Identity
from .checkpoints.resume import Resume, find_resume, restore, restore_randoms
from .choices import Choice, Work, choose
from .config import Checkpointing, Hyperparameters, TrainingConfig
from .data import Prepared, load_samples
from .environment import Environment
from .loop import Training, total_steps, wrap
from .model import freeze_unused, kept_buffers, load_model, make_optimizer, make_schedule
from .opening import begin_progress, say_to_log
from .position import Position
from .precision import FP32, Precision
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
    checkpoint: Checkpointing | None = None,
    job_uid: str = "",
) -> Training:
    """Load the model, find what to go on from, choose the precision with all ranks, set up the rest.

    A collective: all ranks call it.
    """
    parameters, checkpoint = config.hyperparameters, checkpoint or Checkpointing()
    processor = task.load_processor(prepared.model_folder)
    samples = Samples.of(load_samples(prepared, "train"), task=task, processor=processor)
    model = _load(prepared, task=task, parameters=parameters, processor=processor)
    keeper = _keeper(model, prepared, parameters, checkpoint, environment=environment, job_uid=job_uid)
    resume = find_resume(keeper, model=model, say=say_to_log)
    kept = resume.manifest.identity.precision if resume else None
    choice, unused = _try_out(
        model, samples, task=task, config=config, environment=environment, plan=plan, kept_precision=kept
    )
    # An extension may have rebuilt it, and put all of it into training mode.
    model, precision = task.ready(choice.model), choice.precision
    model.zero_grad(set_to_none=True)
    steps = total_steps(len(samples.lengths), parameters=parameters)
    schedule = make_schedule(choice.optimizer, parameters=parameters, total_steps=steps)
    identity = keeper.decide(precision=precision.name, ipex=choice.extension.used)
    if resume:
        restore(resume, identity=identity, model=model, optimizer=choice.optimizer, schedule=schedule)
    progress = begin_progress(
        choice,
        steps=steps,
        backend=backend,
        config=config,
        unused=unused,
        prepared=prepared,
        environment=environment,
        resume=resume.report(identity) if resume else None,
    )
    training = Training(
        model=model,
        wrapped=wrap(model, compile_model=config.compile),
        task=task,
        processor=processor,
        samples=samples,
        optimizer=choice.optimizer,
        schedule=schedule,
        parameters=parameters,
        precision=precision,
        environment=environment,
        progress=progress,
        stopwatch=Stopwatch(model),
        keeper=keeper,
        start=resume.position(identity) if resume else Position(),
    )
    _seed(parameters.seed + environment.rank, resume=resume, identity=identity)
    return training


def _load(prepared: Prepared, *, task: Task, parameters: Hyperparameters, processor: Any) -> nn.Module:
    model = load_model(
        prepared.model_folder,
        task=task,
        labels=prepared.labels,
        dropout=parameters.dropout,
        seed=parameters.seed,
    )
    _set_padding(model, processor)
    return model


def _keeper(
    model: nn.Module,
    prepared: Prepared,
    parameters: Hyperparameters,
    checkpoint: Checkpointing,
    *,
    environment: Environment,
    job_uid: str,
) -> Keeper:
    identity = identity_of(
        model,
        data=prepared.digest,
        batch_size=parameters.batch_size,
        seed=parameters.seed,
        environment=environment,
    )
    return Keeper(
        shelf_of(environment), config=checkpoint, environment=environment, job_uid=job_uid, identity=identity
    )


def _seed(seed: int, *, resume: Resume | None, identity: Identity) -> None:
    """Dropout differs between ranks, and begins at the same point whatever was probed before."""
    torch.manual_seed(seed)
    if resume:
        restore_randoms(resume, identity=identity)


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
    kept_precision: str | None,
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
            kept_precision=kept_precision,
        )
    return choice, unused
