"""What the cores of a rank can do with BF16, as far as the kernel lists it and a trial bears it out."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

import torch

from ..machine.cpuinfo import CpuInfo, parse_cpuinfo
from .trial import how_it_fails

NATIVE_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})
_TRIAL_SECONDS = 20.0
# The best that oneDNN may use where the kernel does not list AMX, by the kernel's flag; names are oneDNN's.
_CEILINGS = (
    ("avx512_fp16", "AVX512_CORE_FP16"),
    ("avx512_bf16", "AVX512_CORE_BF16"),
    ("avx512_vnni", "AVX512_CORE_VNNI"),
    ("avx512bw", "AVX512_CORE"),
    ("avx2", "AVX2"),
)


@dataclass(frozen=True)
class Cores:
    """The cores of one rank. `problem`: why they do not multiply BF16 in hardware; None where they do."""

    model: str
    problem: str | None


def read_flags(cpus: Collection[int], *, cpuinfo: str = "/proc/cpuinfo") -> CpuInfo:
    """The model, and the instruction flags that all of `cpus` have; none where the kernel does not tell."""
    try:
        with open(cpuinfo, encoding="utf-8", errors="replace") as file:
            known = parse_cpuinfo(file.read())
    except OSError:
        known = {}
    mine = [info for number, info in sorted(known.items()) if number in cpus]
    if not mine:
        return CpuInfo(model="", flags=frozenset())
    return CpuInfo(model=mine[0].model, flags=frozenset.intersection(*(info.flags for info in mine)))


def judge_cores(info: CpuInfo, *, trial: bool) -> Cores:
    """Whether these cores multiply BF16. `trial`: also do it once, in a child process.

    Some hosts list an instruction and trap it, which would end the rank with SIGILL.
    """
    if NATIVE_FLAGS.isdisjoint(info.flags):
        return Cores(model=info.model, problem="have neither avx512_bf16 nor amx_bf16")
    failure = how_it_fails(_multiply_bf16, timeout_seconds=_TRIAL_SECONDS) if trial else None
    if failure:
        return Cores(model=info.model, problem=f"list BF16 instructions, but at a trial {failure}")
    return Cores(model=info.model, problem=None)


def _multiply_bf16() -> None:
    torch.set_num_threads(1)
    factor = torch.ones(64, 64, dtype=torch.bfloat16)
    if float((factor @ factor)[0, 0]) != 64.0:
        raise ArithmeticError("a product of BF16 matrices came out wrong")


def hidden_instructions(info: CpuInfo, *, torch_sees_amx: bool) -> dict[str, str]:
    """The environment that keeps oneDNN to what the kernel lists.

    A virtual machine may hide AMX from its kernel, while the CPUID instruction that torch asks still tells of
    it. oneDNN reads the variable at its first operation.
    """
    if not torch_sees_amx or "amx_bf16" in info.flags:
        return {}
    name = next((name for flag, name in _CEILINGS if flag in info.flags), None)
    return {"ONEDNN_MAX_CPU_ISA": name} if name else {}


def torch_sees_amx() -> bool:
    """Whether torch takes these cores to have AMX tiles."""
    asked = getattr(torch.cpu, "_is_amx_tile_supported", None)
    return bool(asked()) if asked else False


def keep_to_listed(info: CpuInfo) -> None:
    """Set that environment in this process, where the user has not set it."""
    for name, value in hidden_instructions(info, torch_sees_amx=torch_sees_amx()).items():
        os.environ.setdefault(name, value)
