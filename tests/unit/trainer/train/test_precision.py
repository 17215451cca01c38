"""BF16 or FP32: what decides, and the sentence that says so."""

from __future__ import annotations

import pytest
from xeontrain_trainer.train.cores import Cores
from xeontrain_trainer.train.precision import BF16, FP32, Rates, decide

NATIVE = Cores(model="Xeon 8473C", problem=None)
ICE_LAKE = Cores(model="Xeon 8370C", problem="have neither avx512_bf16 nor amx_bf16")
TRAPPED = Cores(model="", problem="list BF16 instructions, but at a trial it ended with SIGILL")


def unmeasured() -> Rates:
    raise AssertionError("it is measured only where the answer is open")


@pytest.mark.parametrize(
    ("wanted", "cores", "rates", "name", "emulated", "reason"),
    [
        pytest.param("FP32", [NATIVE], None, "FP32", False, "spec.training.precision is FP32", id="fp32"),
        pytest.param(
            "BF16", [NATIVE, NATIVE], None, "BF16", False, "spec.training.precision is BF16", id="bf16"
        ),
        pytest.param(
            "BF16",
            [ICE_LAKE],
            None,
            "BF16",
            True,
            "spec.training.precision is BF16, but the cores (Xeon 8370C) have neither avx512_bf16 nor "
            "amx_bf16: it is emulated there, many times slower than FP32",
            id="bf16-emulated",
        ),
        pytest.param(
            "Auto",
            [NATIVE],
            Rates(fp32=31.2, bf16=47.4),
            "BF16",
            False,
            "a probe on all ranks gave 47.4 samples/s in BF16, 31.2 in FP32 (1.52 x; 1.1 x is asked of BF16)",
            id="auto-faster",
        ),
        pytest.param(
            "Auto",
            [NATIVE],
            Rates(fp32=27.9, bf16=26.5),
            "FP32",
            False,
            "a probe on all ranks gave 26.5 samples/s in BF16, 27.9 in FP32 (0.95 x; 1.1 x is asked of BF16)",
            id="auto-slower",
        ),
        pytest.param("Auto", [NATIVE], Rates(fp32=100, bf16=110), "BF16", False, "1.10 x", id="auto-margin"),
        pytest.param(
            "Auto", [NATIVE], Rates(fp32=100, bf16=109), "FP32", False, "1.09 x", id="auto-below-margin"
        ),
        pytest.param(
            "Auto",
            [ICE_LAKE],
            None,
            "FP32",
            False,
            "the cores (Xeon 8370C) have neither avx512_bf16 nor amx_bf16",
            id="auto-never-emulates",
        ),
        pytest.param(
            "Auto",
            [NATIVE, ICE_LAKE],
            None,
            "FP32",
            False,
            "the cores of rank 1 (Xeon 8370C) have neither avx512_bf16 nor amx_bf16",
            id="auto-one-lacks-it",
        ),
        pytest.param(
            "Auto",
            [ICE_LAKE, NATIVE, TRAPPED],
            None,
            "FP32",
            False,
            "the cores of 2 of 3 ranks (Xeon 8370C) have neither avx512_bf16 nor amx_bf16",
            id="auto-mixed",
        ),
        pytest.param(
            "Auto",
            [TRAPPED],
            None,
            "FP32",
            False,
            "the cores list BF16 instructions, but at a trial it ended with SIGILL",
            id="auto-trapped",
        ),
    ],
)
def test_decision(
    wanted: str, cores: list[Cores], rates: Rates | None, name: str, emulated: bool, reason: str
) -> None:
    """What the job asks for is done; Auto takes BF16 where all cores have it and it is 1.1 times as fast."""
    decided = decide(wanted, cores=cores, measure=(lambda: rates) if rates else unmeasured)
    assert (decided.name, decided.emulated, decided.rates) == (name, emulated, rates)
    assert reason in decided.reason


def test_many_models_are_cut_short() -> None:
    """The reason goes into the job's status, whatever a cluster has of models."""
    cores = [Cores(model=f"Xeon {number}", problem="lack it") for number in range(9)]
    assert (
        decide("Auto", cores=cores, measure=unmeasured).reason
        == "the cores (Xeon 0, Xeon 1, Xeon 2, ...) lack it"
    )


def test_products_are_computed_as_named() -> None:
    """BF16 computes matrix products so, while weights and sums stay FP32."""
    import torch

    layer = torch.nn.Linear(4, 4)
    for precision, dtype in ((FP32, torch.float32), (BF16, torch.bfloat16)):
        with precision.autocast():
            assert layer(torch.ones(1, 4)).dtype == precision.dtype == dtype
    assert layer.weight.dtype == torch.float32


@pytest.mark.parametrize(
    ("seconds", "rounds"), [(0.001, 5), (0.15, 4), (0.59, 1), (60.0, 1)], ids=["short", "some", "one", "long"]
)
def test_a_probe_costs_little(seconds: float, rounds: int) -> None:
    """Short steps are timed several times, a long one once."""
    from xeontrain_trainer.train.probe import rounds_within

    assert rounds_within(0.6, round_seconds=seconds) == rounds
