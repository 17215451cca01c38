"""Progress: the contract's keys, one line a second, and figures that add up."""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from xeontrain_trainer.train.progress import Progress

from tests.contract import document


class Clock:
    """A clock that goes on by a fixed number of seconds with each step."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now


def report(
    path: Path, *, steps: int, seconds: float, enabled: bool = True, busy_seconds: Sequence[float] = ()
) -> tuple[list[dict[str, Any]], str]:
    log = io.StringIO()
    progress = Progress(
        str(path),
        total_steps=steps,
        precision="FP32",
        backend="Gloo",
        enabled=enabled,
        clock=Clock(seconds),
        log=log,
    )
    for number in range(1, steps + 1):
        progress.step(
            number,
            epoch=number / steps,
            loss=float(number),
            samples=8,
            seconds=seconds,
            busy_seconds=busy_seconds,
        )
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines], log.getvalue()


def test_first_steps_then_one_line_a_second(tmp_path: Path) -> None:
    """Each of the first ten steps is told, then one line a second, and always the last."""
    lines, _ = report(tmp_path / "progress.jsonl", steps=100, seconds=0.1)
    steps = [line["step"] for line in lines]
    assert steps[:10] == list(range(1, 11))
    assert steps[-1] == 100
    assert all(8 <= later - earlier <= 11 for earlier, later in itertools.pairwise(steps[10:-1]))


def test_figures_add_up(tmp_path: Path) -> None:
    """Rates and time left come from the steps' seconds; a line's loss is the mean since the line before."""
    lines, _ = report(tmp_path / "progress.jsonl", steps=40, seconds=0.5)
    assert [line["loss"] for line in lines[:10]] == [float(step) for step in range(1, 11)]
    assert all(line["samplesPerSecond"] == pytest.approx(16) for line in lines)
    for earlier, later in itertools.pairwise(lines):
        assert later["loss"] == pytest.approx((earlier["step"] + 1 + later["step"]) / 2)
        assert later["etaSeconds"] == pytest.approx((40 - later["step"]) * 0.5)
    assert (lines[-1]["etaSeconds"], lines[-1]["epoch"]) == (0, 1)


def test_keys_are_those_of_the_contract(tmp_path: Path) -> None:
    """No key that the launcher would not know, and the time in the contract's form."""
    lines, _ = report(tmp_path / "progress.jsonl", steps=2, seconds=1, busy_seconds=(0.5, 0.25))
    (row,) = [row for row in document.tables("`GET /status`")[0] if row["Key"] == "progress"]
    known = set(re.findall(r'"(\w+)"', row["Meaning"]))
    decided = {name for name in known if name.endswith(("Reason", "Emulated", "Used"))}
    elsewhere = {*decided, "fp32SamplesPerSecond", "bf16SamplesPerSecond"}
    elsewhere |= {"lastCheckpointStep", "resume", "step", "exact", "reason"}
    for line in lines:
        assert line.keys() | elsewhere | {"workerSamplesPerSecond"} == known
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line["time"])


def test_workers_speeds_are_told_now_and_then(tmp_path: Path) -> None:
    """Once the run is warm, then once a minute and at the end: what each does with its half of the rows."""
    lines, _ = report(tmp_path / "progress.jsonl", steps=200, seconds=1, busy_seconds=(0.5, 0.25))
    told = {
        line["step"]: line["workerSamplesPerSecond"] for line in lines if "workerSamplesPerSecond" in line
    }
    assert list(told) == [10, 70, 130, 190, 200]
    assert all(rates == [8, 16] for rates in told.values())


def test_a_run_begins_with_what_was_decided(tmp_path: Path) -> None:
    """The line of step 0 has it, and is there before the first step."""
    path = tmp_path / "progress.jsonl"
    progress = Progress(str(path), total_steps=5, precision="BF16", backend="CCL", enabled=True)
    progress.begin({"precisionReason": "faster"})
    line = json.loads(path.read_text())
    del line["time"]
    assert line == {
        "step": 0,
        "totalSteps": 5,
        "precision": "BF16",
        "backend": "CCL",
        "precisionReason": "faster",
    }


def test_people_read_a_line_now_and_then(tmp_path: Path) -> None:
    """The log has the first and last step and about one line in ten seconds between."""
    _, log = report(tmp_path / "progress.jsonl", steps=100, seconds=1)
    assert log.splitlines()[0].startswith("step 1/100  epoch 0.01  loss 1.0000  8.0 samples/s  99 s left")
    assert log.splitlines()[-1].startswith("step 100/100")
    assert len(log.splitlines()) == 11


def test_other_ranks_are_silent(tmp_path: Path) -> None:
    """Only rank 0 reports."""
    assert report(tmp_path / "progress.jsonl", steps=20, seconds=1, enabled=False) == ([], "")
