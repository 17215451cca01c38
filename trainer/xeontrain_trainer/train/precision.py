"""BF16 or FP32: decided once, by all ranks, from what the cores have and what a short probe measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from .cores import Cores

# BF16 costs a little accuracy, so it must win clearly.
REQUIRED_SPEEDUP = 1.1
_MODELS_NAMED = 3


@dataclass(frozen=True)
class Rates:
    """Samples a second of all ranks together in FP32 and in BF16, at the slowest rank's pace."""

    fp32: float
    bf16: float


@dataclass(frozen=True)
class Precision:
    """`name` is BF16 or FP32, `reason` says why, for people. Plain values, so that a checkpoint can keep it.

    `emulated`: BF16 on cores that do not multiply it in hardware. `rates`: None where nothing was measured.
    """

    name: str
    reason: str
    emulated: bool = False
    rates: Rates | None = None

    @property
    def dtype(self) -> torch.dtype:
        """What matrix products are computed in; the weights stay float32."""
        return torch.bfloat16 if self.name == "BF16" else torch.float32

    def autocast(self) -> torch.autocast:
        """The context of the forward pass."""
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.name == "BF16")


FP32 = Precision("FP32", "spec.training.precision is FP32")
BF16 = Precision("BF16", "spec.training.precision is BF16")


def decide(
    wanted: str, *, cores: Sequence[Cores], measure: Callable[[], Rates], kept: str | None = None
) -> Precision:
    """The precision of this run: `wanted`, or for Auto the faster one; a resumed run keeps its own (`kept`).

    Pure but for `measure`, a collective that all ranks call or none: the same arguments in all ranks give the
    same answer in all of them. `cores`: those of every rank, by rank.
    """
    if wanted == "FP32":
        return FP32
    lacking = _who_lacks(cores)
    if wanted == "BF16":
        reason = f"{BF16.reason}, but {lacking}: it is emulated there, many times slower than FP32"
        return Precision("BF16", reason, emulated=True) if lacking else BF16
    if lacking:
        return Precision("FP32", lacking)
    if kept:
        return Precision(kept, "the run began with it, and goes on from its checkpoint")
    rates = measure()
    speedup = rates.bf16 / max(rates.fp32, 1e-9)
    found = (
        f"a probe on all ranks gave {rates.bf16:.4g} samples/s in BF16, {rates.fp32:.4g} in FP32 "
        f"({speedup:.2f} x; {REQUIRED_SPEEDUP} x is asked of BF16)"
    )
    return Precision("BF16" if speedup >= REQUIRED_SPEEDUP else "FP32", found, rates=rates)


def _who_lacks(cores: Sequence[Cores]) -> str | None:
    """Which ranks have no BF16 in hardware, and why; None where all have it."""
    lacking = [rank for rank, one in enumerate(cores) if one.problem]
    if not lacking:
        return None
    if len(lacking) == 1 < len(cores):
        who = f"the cores of rank {lacking[0]}"
    elif len(lacking) < len(cores):
        who = f"the cores of {len(lacking)} of {len(cores)} ranks"
    else:
        who = "the cores"
    models = sorted({cores[rank].model for rank in lacking} - {""})
    named = f" ({', '.join(models[:_MODELS_NAMED])}{', ...' if len(models) > _MODELS_NAMED else ''})"
    return f"{who}{named if models else ''} {cores[lacking[0]].problem}"
