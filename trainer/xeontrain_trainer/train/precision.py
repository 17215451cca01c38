"""BF16 or FP32: decided once, by all ranks, from what the cores have and what a short probe measures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from . import distributed

# BF16 costs a little accuracy, so it must win clearly.
REQUIRED_SPEEDUP = 1.1
_NATIVE_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})
_WARM_UP_STEPS = 2
_TIMED_STEPS = 3


@dataclass(frozen=True)
class Precision:
    """`name` is BF16 or FP32, `reason` a sentence for people, `warning` whether that sentence is one."""

    name: str
    reason: str
    warning: bool = False

    @property
    def dtype(self) -> torch.dtype:
        """What matrix products are computed in; the weights stay float32."""
        return torch.bfloat16 if self.name == "BF16" else torch.float32

    def autocast(self) -> torch.autocast:
        """The context of the forward pass."""
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.name == "BF16")


FP32 = Precision("FP32", "spec.training.precision is FP32")


def decide(wanted: str, *, native: bool, seconds: Callable[[Precision], float]) -> Precision:
    """The precision of this run: `wanted`, or for Auto the faster one. A collective: all ranks call it.

    `native`: whether this rank's core multiplies BF16. `seconds(precision)`: what a training step takes here;
    asked only where all ranks are native, and the slowest rank's answers decide.
    """
    (lacking,) = distributed.total([0.0 if native else 1.0])
    if wanted == "FP32":
        return FP32
    if wanted == "BF16":
        if lacking:
            reason = (
                f"BF16 as the job asks, but {int(lacking)} ranks have cores without it and emulate it slowly"
            )
            return Precision("BF16", reason, warning=True)
        return Precision("BF16", "spec.training.precision is BF16")
    if lacking:
        return Precision("FP32", "the cores have neither avx512_bf16 nor amx_bf16")
    fp32, bf16 = distributed.largest([seconds(FP32), seconds(Precision("BF16", "probe"))])
    found = (
        f"a training step took {fp32 * 1000:.0f} ms in FP32, {bf16 * 1000:.0f} ms in BF16 on the slowest rank"
    )
    return Precision("BF16" if fp32 >= REQUIRED_SPEEDUP * bf16 else "FP32", found)


def best_seconds(step: Callable[[], None]) -> float:
    """The best of a few runs of `step`, in seconds, after warming up: noise only ever adds."""
    for _ in range(_WARM_UP_STEPS):
        step()
    times = []
    for _ in range(_TIMED_STEPS):
        started = time.perf_counter()
        step()
        times.append(time.perf_counter() - started)
    return min(times)


def has_native_bf16(cpuinfo: str = "/proc/cpuinfo") -> bool:
    """Whether the kernel lists an instruction set that multiplies BF16; what it hides cannot be used."""
    try:
        with open(cpuinfo, encoding="utf-8") as file:
            flags = next((line for line in file if line.startswith("flags")), "")
    except OSError:
        return False
    return not _NATIVE_FLAGS.isdisjoint(flags.split())
