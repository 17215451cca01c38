"""What a run tells before its first step: what it goes on from, and what its ranks decided."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .backend import Backend
from .choices import Choice
from .config import TrainingConfig
from .data import Prepared
from .environment import Environment
from .progress import Progress


def say_to_log(text: str) -> None:
    """A line for people before there is a Progress; of rank 0 alone."""
    print(text, file=sys.stderr, flush=True)


def begin_progress(
    choice: Choice,
    *,
    steps: int,
    backend: Backend,
    config: TrainingConfig,
    unused: Sequence[str],
    prepared: Prepared,
    environment: Environment,
    resume: dict[str, Any] | None,
) -> Progress:
    """The reports of a run, with what was decided told in the first line and in the log.

    `resume`: what it goes on from, as docs/contract.md has it.
    """
    progress = Progress(
        environment.progress_file,
        total_steps=steps,
        precision=choice.precision.name,
        backend=backend.label,
        enabled=environment.is_main,
    )
    decisions = _decisions(choice, backend=backend)
    progress.begin(decisions | ({"resume": resume} if resume else {}), step=resume["step"] if resume else 0)
    progress.say(
        f"training on {prepared.train_rows} rows ({prepared.train_samples} samples) in "
        f"{steps} steps of {config.hyperparameters.batch_size}, "
        f"{environment.world_size} ranks x {torch.get_num_threads()} threads"
    )
    if resume:
        inexact = "" if resume["exact"] else f"; warning: {resume['reason']}"
        progress.say(f"goes on from the checkpoint of step {resume['step']}{inexact}")
    for line in _in_words(choice, backend=backend, config=config, unused=unused):
        progress.say(line)
    return progress


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
