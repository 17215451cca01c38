"""What a core can do with BF16, as the kernel lists it."""

from __future__ import annotations

from pathlib import Path

import pytest
from xeontrain_trainer.train.precision import FP32, Precision, has_native_bf16


@pytest.mark.parametrize(
    ("flags", "native"),
    [
        ("fpu avx512f avx512_vnni", False),
        ("fpu avx512f avx512_bf16", True),
        ("fpu amx_bf16 amx_tile", True),
        ("fpu avx512_bf16_like", False),
    ],
    ids=["ice-lake", "cooper-lake", "amx", "whole-words"],
)
def test_native_bf16(tmp_path: Path, flags: str, native: bool) -> None:
    """Only the two instruction sets that multiply BF16 count."""
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nmodel name\t: X\nflags\t\t: {flags}\n")
    assert has_native_bf16(str(cpuinfo)) is native


def test_unknown_machine(tmp_path: Path) -> None:
    """Where the kernel does not tell, nothing is assumed."""
    assert not has_native_bf16(str(tmp_path / "none"))


def test_products_are_computed_as_named() -> None:
    """BF16 computes matrix products so, while weights and sums stay FP32."""
    import torch

    layer = torch.nn.Linear(4, 4)
    for precision, dtype in ((FP32, torch.float32), (Precision("BF16", ""), torch.bfloat16)):
        with precision.autocast():
            assert layer(torch.ones(1, 4)).dtype == precision.dtype == dtype
    assert layer.weight.dtype == torch.float32
