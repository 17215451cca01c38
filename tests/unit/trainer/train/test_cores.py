"""What cores can do with BF16: what the kernel lists, and what a trial in a child process bears out."""

from __future__ import annotations

from pathlib import Path

import pytest
from xeontrain_trainer.machine.cpuinfo import CpuInfo
from xeontrain_trainer.train import cores
from xeontrain_trainer.train.cores import hidden_instructions, judge_cores, read_flags

SAPPHIRE = "fpu avx2 avx512f avx512bw avx512_vnni avx512_bf16 avx512_fp16 amx_bf16 amx_tile"


def write_cpuinfo(folder: Path, *flags: str) -> str:
    path = folder / "cpuinfo"
    blocks = (
        f"processor\t: {n}\nmodel name\t: Xeon {n}\nflags\t\t: {text}\n" for n, text in enumerate(flags)
    )
    path.write_text("\n".join(blocks))
    return str(path)


@pytest.mark.parametrize(
    ("flags", "native"),
    [
        ("fpu avx512f avx512_vnni", False),
        ("fpu avx512f avx512_bf16", True),
        ("fpu amx_bf16 amx_tile", True),
        ("fpu avx512_bf16_like", False),
        ("", False),
    ],
    ids=["ice-lake", "cooper-lake", "amx", "whole-words", "nothing-known"],
)
def test_only_instructions_that_multiply_bf16_count(flags: str, native: bool) -> None:
    """By the kernel's own names."""
    found = judge_cores(CpuInfo(model="X", flags=frozenset(flags.split())), trial=False)
    assert (found.problem is None) is native


@pytest.mark.parametrize(
    ("cpus", "model", "flags"),
    [
        ({0}, "Xeon 0", {"avx2", "avx512_bf16"}),
        ({1}, "Xeon 1", {"avx2"}),
        ({0, 1}, "Xeon 0", {"avx2"}),
        ({7}, "", set()),
    ],
    ids=["one", "other", "both", "unknown"],
)
def test_flags_are_those_of_all_the_ranks_own_cpus(
    tmp_path: Path, cpus: set[int], model: str, flags: set[str]
) -> None:
    """Another CPU of the machine says nothing of this rank's; the weakest of its own decides."""
    info = read_flags(cpus, cpuinfo=write_cpuinfo(tmp_path, "avx2 avx512_bf16", "avx2"))
    assert (info.model, set(info.flags)) == (model, flags)


def test_unknown_machine(tmp_path: Path) -> None:
    """Where the kernel does not tell, nothing is assumed."""
    info = read_flags({0}, cpuinfo=str(tmp_path / "none"))
    assert judge_cores(info, trial=True).problem == "have neither avx512_bf16 nor amx_bf16"


def test_a_listed_instruction_that_traps_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some hosts list BF16 and trap it: the child dies of it, the rank goes on in FP32."""
    import os
    import signal

    monkeypatch.setattr(cores, "_multiply_bf16", lambda: os.kill(os.getpid(), signal.SIGILL))
    info = CpuInfo(model="X", flags=frozenset({"amx_bf16"}))
    assert judge_cores(info, trial=True).problem == (
        "list BF16 instructions, but at a trial it ended with SIGILL"
    )


def test_a_product_really_is_tried() -> None:
    """The trial multiplies, in a child, on any core: emulated where it must be."""
    assert judge_cores(CpuInfo(model="X", flags=frozenset({"avx512_bf16"})), trial=True).problem is None


@pytest.mark.parametrize(
    ("flags", "torch_sees_amx", "expected"),
    [
        (SAPPHIRE, True, {}),
        (SAPPHIRE.replace("amx_bf16", "x"), False, {}),
        (SAPPHIRE.replace("amx_bf16", "x"), True, {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16"}),
        ("avx2 avx512bw avx512_vnni avx512_bf16", True, {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}),
        ("avx2 avx512bw avx512_vnni", True, {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"}),
        ("avx2", True, {"ONEDNN_MAX_CPU_ISA": "AVX2"}),
        ("", True, {}),
    ],
    ids=["listed", "both-without", "hidden", "cooper-lake", "ice-lake", "avx2", "unknown"],
)
def test_amx_that_the_kernel_hides_is_not_used(
    flags: str, torch_sees_amx: bool, expected: dict[str, str]
) -> None:
    """Tiles that the kernel does not save on a switch of threads must not be used, whatever CPUID tells."""
    info = CpuInfo(model="X", flags=frozenset(flags.split()))
    assert hidden_instructions(info, torch_sees_amx=torch_sees_amx) == expected
