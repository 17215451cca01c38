"""How the ranks compute: in which precision, with Intel's extension or without. Decided once, by all ranks.

What is measured is what the run will do: forward and backward pass of a batch of its own, on this rank's
threads, while all other ranks do the same.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from . import distributed, ipex
from .config import TrainingConfig
from .cores import judge_cores, read_flags
from .environment import Environment
from .ipex import Extension
from .precision import BF16, FP32, REQUIRED_SPEEDUP, Precision, Rates, decide
from .probe import slowest_seconds

MakeOptimizer = Callable[[nn.Module], torch.optim.Optimizer]


@dataclass(frozen=True)
class Work:
    """What a rank does in a step, for measuring it: `backward(model, rows, precision)` on `rows`."""

    backward: Callable[[nn.Module, Sequence[int], Precision], None]
    rows: Sequence[int]

    def step(self, model: nn.Module, precision: Precision) -> Callable[[], None]:
        """A forward and a backward pass of `model`, from no gradients on as in training."""

        def run() -> None:
            model.zero_grad(set_to_none=True)
            self.backward(model, self.rows, precision)

        return run

    def rates(self, ways: Sequence[Callable[[], None]]) -> list[float]:
        """Samples a second of all ranks together in each of `ways`. A collective."""
        seconds = slowest_seconds(ways)
        (samples,) = distributed.total([len(self.rows)])
        return [samples / max(one, 1e-9) for one in seconds]


@dataclass(frozen=True)
class Choice:
    """What was decided, with the model and the optimizer that follow from it."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    precision: Precision
    extension: Extension


def choose(
    model: nn.Module,
    *,
    make_optimizer: MakeOptimizer,
    work: Work,
    config: TrainingConfig,
    environment: Environment,
    kept_precision: str | None = None,
) -> Choice:
    """Decide how to compute. A collective: all ranks call it, and come to the same.

    `kept_precision`: of the checkpoint that the run goes on from.

    Raises BadConfigError where the job insists on what a rank cannot do.
    """
    first_of_worker = environment.prepares_data
    if config.ipex == "Enabled":
        ipex.insist(ipex.load_in_all_ranks(first_of_worker=first_of_worker))
    precision = _choose_precision(model, work=work, wanted=config.precision, kept=kept_precision)
    if config.ipex == "Enabled":
        insisted = "spec.training.ipex is Enabled"
        return _extended(model, make_optimizer, precision=precision, reason=insisted)
    reason = _why_not_tried(config, first_of_worker=first_of_worker)
    if reason is None:
        return _try_extension(model, make_optimizer=make_optimizer, work=work, precision=precision)
    return Choice(model, make_optimizer(model), precision, Extension(used=False, reason=reason))


def _choose_precision(model: nn.Module, *, work: Work, wanted: str, kept: str | None) -> Precision:
    def measure() -> Rates:
        fp32, bf16 = work.rates([work.step(model, FP32), work.step(model, BF16)])
        return Rates(fp32=fp32, bf16=bf16)

    info = read_flags(os.sched_getaffinity(0))
    cores = distributed.gather(judge_cores(info, trial=wanted != "FP32"))
    return decide(wanted, cores=cores, measure=measure, kept=kept)


def _why_not_tried(config: TrainingConfig, *, first_of_worker: bool) -> str | None:
    """Why the extension is not even measured; None where it is loaded and to be tried."""
    if config.ipex == "Disabled":
        return "spec.training.ipex is Disabled"
    if config.compile:
        return "torch.compile is asked for, which does without it"
    return ipex.load_in_all_ranks(first_of_worker=first_of_worker)


def _extended(
    model: nn.Module, make_optimizer: MakeOptimizer, *, precision: Precision, reason: str
) -> Choice:
    optimized, optimizer = ipex.optimize(model, make_optimizer(model), dtype=precision.dtype)
    return Choice(optimized, optimizer, precision, Extension(used=True, reason=reason))


def _try_extension(
    model: nn.Module, *, make_optimizer: MakeOptimizer, work: Work, precision: Precision
) -> Choice:
    """Measure a copy of the model under the extension against the model without."""
    extended = _extended(copy.deepcopy(model), make_optimizer, precision=precision, reason="")
    with_it, without = work.rates([work.step(extended.model, precision), work.step(model, precision)])
    speedup = with_it / without
    found = (
        f"a probe on all ranks gave {with_it:.4g} samples/s with it, {without:.4g} without, in "
        f"{precision.name} ({speedup:.2f} x; {REQUIRED_SPEEDUP} x is asked of it)"
    )
    extended.model.zero_grad(set_to_none=True)
    if speedup >= REQUIRED_SPEEDUP:
        return Choice(extended.model, extended.optimizer, precision, Extension(used=True, reason=found))
    return Choice(model, make_optimizer(model), precision, Extension(used=False, reason=found))
