"""What a person sees of a run."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from xeontrain_operator.cli.run.display import Display, duration, figures
from xeontrain_operator.cli.run.status import Status, Verdict, read_verdict


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        ({}, ""),
        ({"step": 3}, "step 3"),
        (
            {"step": 79, "totalSteps": 125, "loss": 0.42312, "samplesPerSecond": 27.94, "etaSeconds": 80},
            "79/125  loss 0.4231  27.9 samples/s  1m20s left",
        ),
    ],
    ids=["nothing", "step", "all"],
)
def test_figures(progress: dict[str, Any], text: str) -> None:
    """What is unknown is left out."""
    assert figures(progress) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0s"), (45, "45s"), (80, "1m20s"), (7500, "2h5m")])
def test_duration(seconds: float, text: str) -> None:
    """As kubectl writes ages."""
    assert duration(seconds) == text


def test_lines_where_there_is_no_terminal() -> None:
    """A log gets a line at a change of state, not one for each look, and each failure once."""
    out = io.StringIO()
    failure = {"id": "u/1", "rank": 1, "worker": 1, "message": "ValueError: [x]"}
    with Display(Console(file=out, width=200), running="Loading") as display:
        for _ in range(3):
            display.show(Status(state="Starting"))
        display.show(Status(state="Running"))
        for step in (1, 2, 3):
            display.show(
                Status(state="Running", progress={"step": step, "totalSteps": 3}, failures=(failure,))
            )
    assert out.getvalue().splitlines() == [
        "Starting",
        "Loading",
        "Rank 1 of worker 1 failed: ValueError: [x]",
        "Training  1/3",
    ]


def test_what_holds_a_run_up_is_said_once() -> None:
    """A folder that cannot be written, and a rank that the others wait for, once that is worth a word."""
    out = io.StringIO()
    with Display(Console(file=out, width=200)) as display:
        for seconds in (3.0, 70.0, 80.0):
            display.show(
                Status(state="Running", trouble="no disk", stragglers={"ranks": [3, 5], "seconds": seconds})
            )
    assert out.getvalue().splitlines() == [
        "no disk",
        "Running",
        "Still running, while others have ended with success: rank 3, 5",
    ]


DOCUMENT = {
    "outcome": "Failed",
    "metrics": {},
    "model": None,
    "failure": {"reason": "UserError", "message": "no column text"},
}


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (
            json.dumps(DOCUMENT),
            Verdict(succeeded=False, metrics={}, model=None, reason="UserError", message="no column text"),
        ),
        (
            json.dumps(
                {"outcome": "Succeeded", "metrics": {"accuracy": 0.9}, "model": "/m", "failure": None}
            ),
            Verdict(succeeded=True, metrics={"accuracy": 0.9}, model="/m", reason="", message=""),
        ),
        ("", None),
        ('{"outcome"', None),
        ("[]", None),
        ("{}", None),
    ],
    ids=["failed", "succeeded", "empty", "cut", "list", "no-outcome"],
)
def test_verdict(tmp_path: Path, text: str, verdict: Verdict | None) -> None:
    """The result document is read as it is; anything else is no verdict."""
    file = tmp_path / "termination-log"
    file.write_text(text)
    assert read_verdict(file) == verdict


def test_no_verdict(tmp_path: Path) -> None:
    """A launcher that was killed leaves none."""
    assert read_verdict(tmp_path / "none") is None
