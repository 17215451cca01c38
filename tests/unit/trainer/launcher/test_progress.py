"""Progress is followed through whatever a script writes; what comes out is the contract's object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xeontrain_trainer.launcher.progress import MAX_LINE_BYTES, ProgressTail, parse_progress

NOW = 1767225600.0
SAID = "2026-01-01T00:00:00Z"


def tail_of(path: Path) -> ProgressTail:
    return ProgressTail(str(path), now=lambda: NOW)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param('{"step": 3}', {"step": 3, "time": SAID}, id="step-alone"),
        pytest.param(
            '{"step": 3, "totalSteps": 10, "epoch": 0.3, "loss": 1, "samplesPerSecond": 2.5,'
            ' "etaSeconds": 60, "precision": "BF16", "backend": "Gloo", "lastCheckpointStep": 2,'
            ' "time": "2026-02-03T04:05:06.7Z"}',
            {
                "step": 3,
                "totalSteps": 10,
                "epoch": 0.3,
                "loss": 1,
                "samplesPerSecond": 2.5,
                "etaSeconds": 60,
                "precision": "BF16",
                "backend": "Gloo",
                "lastCheckpointStep": 2,
                "time": "2026-02-03T04:05:06.7Z",
            },
            id="everything",
        ),
        pytest.param(
            '{"step": 0, "precisionReason": "'
            + "r" * 600
            + '", "precisionEmulated": false, "ipexUsed": true,'
            ' "bf16SamplesPerSecond": 47, "workerSamplesPerSecond": [1.5, 2]}',
            {
                "step": 0,
                "precisionReason": "r" * 500,
                "precisionEmulated": False,
                "ipexUsed": True,
                "bf16SamplesPerSecond": 47,
                "workerSamplesPerSecond": [1.5, 2],
                "time": SAID,
            },
            id="decisions",
        ),
        pytest.param(
            '{"step": 0, "ipexReason": 1, "ipexUsed": "yes", "fp32SamplesPerSecond": -1,'
            ' "workerSamplesPerSecond": [1, NaN]}',
            {"step": 0, "time": SAID},
            id="decisions-of-wrong-kinds",
        ),
        pytest.param('{"step": 1, "color": "red"}', {"step": 1, "time": SAID}, id="unknown-key"),
        pytest.param('{"step": 1, "loss": NaN}', {"step": 1, "time": SAID}, id="nan"),
        pytest.param('{"step": 1, "loss": -Infinity}', {"step": 1, "time": SAID}, id="infinity"),
        pytest.param('{"step": 1, "loss": 1e999}', {"step": 1, "time": SAID}, id="too-large"),
        pytest.param(
            '{"step": 1, "loss": "0.5", "epoch": true, "totalSteps": 1.5, "backend": ""}',
            {"step": 1, "time": SAID},
            id="wrong-kinds",
        ),
        pytest.param('{"step": 1, "time": "yesterday"}', {"step": 1, "time": SAID}, id="no-time"),
        pytest.param('{"loss": 1}', None, id="no-step"),
        pytest.param('{"step": "1"}', None, id="step-is-text"),
        pytest.param('{"step": -1}', None, id="step-below-zero"),
        pytest.param('{"step": true}', None, id="step-is-a-flag"),
        pytest.param('{"step": NaN}', None, id="step-is-nan"),
        pytest.param("[1]", None, id="a-list"),
        pytest.param("step 3", None, id="text"),
        pytest.param("[" * 60000, None, id="too-deep"),
    ],
)
def test_line(line: str, expected: dict[str, Any] | None) -> None:
    assert parse_progress(line.encode(), now=lambda: NOW) == expected


@given(st.binary(max_size=200) | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
@settings(max_examples=200, deadline=None)
def test_any_bytes_give_strict_json_or_nothing(line: bytes) -> None:
    progress = parse_progress(line)
    json.dumps(progress, allow_nan=False)


def test_missing_file_then_lines_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    tail = tail_of(path)
    assert tail.poll() is None
    with path.open("w") as file:
        for step in range(3):
            file.write(f'{{"step": {step}}}\n')
            file.flush()
            assert tail.poll() == {"step": step, "time": SAID}
    assert tail.poll() == {"step": 2, "time": SAID}


def test_decisions_last_until_others_are_said_or_the_file_is_new(tmp_path: Path) -> None:
    """A run says once why it computes as it does; a restarted run may say otherwise, or nothing."""
    path = tmp_path / "progress.jsonl"
    tail = tail_of(path)
    path.write_text('{"step": 0, "precision": "BF16", "precisionReason": "faster", "loss": 1}\n{"step": 1}\n')
    assert tail.poll() == {"step": 1, "precision": "BF16", "precisionReason": "faster", "time": SAID}
    with path.open("a") as file:
        file.write('{"step": 2, "precision": "FP32"}\n')
    assert tail.poll() == {"step": 2, "precision": "FP32", "precisionReason": "faster", "time": SAID}
    path.unlink()
    assert tail.poll() == {"step": 2, "precision": "FP32", "precisionReason": "faster", "time": SAID}
    path.write_text('{"step": 0}\n')
    assert tail.poll() == {"step": 0, "time": SAID}


def test_a_partial_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    tail = tail_of(path)
    with path.open("w") as file:
        for part, step in (('{"step": 1}\n{"st', 1), ('ep": 1', 1), ("7}", 1), ("\n", 17)):
            file.write(part)
            file.flush()
            progress = tail.poll()
            assert progress is not None
            assert progress["step"] == step


def test_rubbish_and_huge_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    huge = b'{"step": 9, "x": "' + b"x" * (3 * MAX_LINE_BYTES) + b'"}'
    path.write_bytes(b'{"step": 1}\nrubbish\n\xff\xfe\n\n' + huge + b"\n")
    tail = tail_of(path)
    assert tail.poll() == {"step": 1, "time": SAID}
    with path.open("ab") as file:
        # A huge line in the making, seen twice before its end.
        file.write(huge)
        file.flush()
        assert tail.poll() == {"step": 1, "time": SAID}
        file.write(b'{"step": 8}\n{"step": 2}\n')
    assert tail.poll() == {"step": 2, "time": SAID}


@pytest.mark.parametrize("replace", [False, True], ids=["truncated", "replaced"])
def test_a_new_round_starts_the_file_again(tmp_path: Path, replace: bool) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text('{"step": 100, "loss": 0.123456}\n')
    tail = tail_of(path)
    assert tail.poll() is not None
    if replace:
        other = tmp_path / "other"
        other.write_text('{"step": 1, "loss": 0.1234567890123456}\n')
        other.rename(path)
    else:
        path.write_text('{"step": 1}\n')
    progress = tail.poll()
    assert progress is not None
    assert progress["step"] == 1
