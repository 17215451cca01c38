"""From config and tokens to everything that the loop works on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from . import ipex
from .batches import Tokens, summed_loss
from .config import TrainingConfig
from .data import Prepared, load_tokenizer, load_tokens
from .environment import Environment
from .loop import Training, total_steps, wrap
from .model import freeze_unused, load_model, make_optimizer, make_schedule
from .precision import FP32, Precision, best_seconds, decide, has_native_bf16
from .progress import Progress
from .sampler import global_batches, micro_batches


def build_training(
    config: TrainingConfig, *, prepared: Prepared, environment: Environment, backend: str
) -> Training:
    """Load the model, choose the precision with all ranks, and set up optimizer, schedule and progress."""
    parameters = config.hyperparameters
    tokenizer = load_tokenizer(prepared.model_folder)
    tokens = Tokens.of(load_tokens(prepared, "train"), tokenizer=tokenizer)
    model = load_model(
        prepared.model_folder, labels=prepared.labels, dropout=parameters.dropout, seed=parameters.seed
    )
    _set_padding(model, tokenizer)
    unused = freeze_unused(model, backward=lambda: _backward(model, tokens, rows=[0], precision=FP32))
    precision = _decide_precision(model, tokens, config=config, environment=environment)
    optimizer = make_optimizer(model, parameters=parameters)
    ipex_problem = None
    if config.ipex == "Enabled":
        model, optimizer, ipex_problem = ipex.optimize(model, optimizer, dtype=precision.dtype)
    steps = total_steps(len(tokens.lengths), parameters=parameters)
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
        progress.say(f"not trained, as the classification does not use them: {', '.join(unused)}")
    # Dropout differs between ranks, and begins at the same point whatever was probed before.
    torch.manual_seed(parameters.seed + environment.rank)
    return Training(
        model=model,
        wrapped=wrap(model, compile_model=config.compile),
        tokenizer=tokenizer,
        tokens=tokens,
        optimizer=optimizer,
        schedule=make_schedule(optimizer, parameters=parameters, total_steps=steps),
        parameters=parameters,
        precision=precision,
        environment=environment,
        progress=progress,
    )


def evaluation_tokens(prepared: Prepared, *, tokenizer: object) -> Tokens | None:
    """The evaluation rows; None where the job has none."""
    if prepared.eval_rows is None:
        return None
    return Tokens.of(load_tokens(prepared, "eval"), tokenizer=tokenizer)


def _set_padding(model: Any, tokenizer: Any) -> None:
    """A model of the GPT kind finds the end of a text by its padding, and often has none of its own."""
    if getattr(model.config, "pad_token_id", None) is None:
        model.config.pad_token_id = tokenizer.pad_token_id


def _decide_precision(
    model: nn.Module, tokens: Tokens, *, config: TrainingConfig, environment: Environment
) -> Precision:
    """The precision of the run, measured, where it must be, on the first batch of this rank."""
    parameters = config.hyperparameters

    def seconds(precision: Precision) -> float:
        first = next(
            global_batches(tokens.lengths, batch_size=parameters.batch_size, seed=parameters.seed, epoch=0)
        )
        mine = first.slice_of(environment.rank, world_size=environment.world_size) or first.rows[:1]
        rows = micro_batches(mine, pieces=parameters.accumulation_steps)[0]
        return best_seconds(lambda: _backward(model, tokens, rows=rows, precision=precision))

    decided = decide(config.precision, native=has_native_bf16(), seconds=seconds)
    model.zero_grad(set_to_none=True)
    return decided


def _backward(model: nn.Module, tokens: Tokens, *, rows: Sequence[int], precision: Precision) -> None:
    with precision.autocast():
        loss, _ = summed_loss(model, tokens.batch(rows))
    loss.backward()
