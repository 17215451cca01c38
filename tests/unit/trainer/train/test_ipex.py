"""Intel's extension for real: runs in the environment of the image variant ipex alone (make ipex-tests)."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors import safe_open
from xeontrain_trainer.train.precision import REQUIRED_SPEEDUP

from tests.unit.trainer.train.ranks import succeeded
from tests.unit.trainer.train.test_run import decisions_of, job, progress_of, run

pytestmark = [pytest.mark.ipex, pytest.mark.timeout(900)]


@pytest.mark.parametrize("precision", ["FP32", "BF16"])
def test_enabled_trains_and_saves_plain_weights(tiny_model: Path, tmp_path: Path, precision: str) -> None:
    """Two ranks learn with the extension, and what they save is float32 under the usual names."""
    training = {**job(tiny_model, tmp_path, epochs=4), "ipex": "Enabled", "precision": precision}
    ended = run(tmp_path, training)
    assert succeeded(ended) == [0, 0]
    said = decisions_of(tmp_path)
    assert (said["ipexUsed"], said["ipexReason"]) == (True, "spec.training.ipex is Enabled")
    losses = [line["loss"] for line in progress_of(tmp_path)]
    assert losses[-1] < losses[0] / 2
    with safe_open(tmp_path / "job" / "model" / "model.safetensors", "np") as saved:
        names = list(saved.keys())
        assert {saved.get_tensor(name).dtype.name for name in names} == {"float32"}
    with safe_open(tiny_model / "model.safetensors", "np") as original:
        assert {f"bert.{name}" for name in original.keys()} <= set(names)  # noqa: SIM118


def test_losses_are_those_without_it(tiny_model: Path, tmp_path: Path) -> None:
    """In FP32 with dropout off the extension changes the speed and nothing else (1e-4)."""
    losses = {}
    for ipex in ("Enabled", "Disabled"):
        folder = tmp_path / ipex
        folder.mkdir()
        ended = run(folder, {**job(tiny_model, folder, dropout=0, maxSteps=10), "ipex": ipex})
        assert succeeded(ended) == [0, 0]
        assert decisions_of(folder)["ipexUsed"] is (ipex == "Enabled")
        losses[ipex] = [line["loss"] for line in progress_of(folder)]
    assert losses["Enabled"] == pytest.approx(losses["Disabled"], abs=1e-4)


def test_auto_takes_the_faster(tiny_model: Path, tmp_path: Path) -> None:
    """Measured with and without by all ranks; used where it is 1.1 times as fast, and the reason has both."""
    ended = run(tmp_path, {**job(tiny_model, tmp_path, maxSteps=2), "ipex": "Auto"})
    assert succeeded(ended) == [0, 0]
    said = decisions_of(tmp_path)
    words = said["ipexReason"].split()
    with_it, without = (float(words[words.index("samples/s") - 1]), float(words[words.index("without,") - 1]))
    assert said["ipexUsed"] is (with_it / without >= REQUIRED_SPEEDUP)
