"""A verdict is kept whole or not at all, and always fits into the termination message as valid JSON."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xeontrain_trainer.gang.verdict import read_verdict
from xeontrain_trainer.gang.wire import Fields
from xeontrain_trainer.launcher import files
from xeontrain_trainer.launcher.progress import ProgressTail
from xeontrain_trainer.launcher.results import (
    FinalMetrics,
    JobDir,
    StateDir,
    fit_document,
    read_metrics,
    result_document,
    write_termination,
)


def document(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "job_uid": "uid-1",
        "worker": 0,
        "round_number": 3,
        "outcome": "Succeeded",
        "metrics": {"eval_accuracy": 0.97},
        "model": "/var/lib/xeontrain/mail-filter-0a1b2c3d/model",
        "failures": 1,
        "failure": None,
    }
    return result_document(**{**values, **changes})


# Documents of this job that nobody could be told.
DAMAGED = [
    json.dumps({"jobUid": "uid-1", "outcome": "Succeeded"}),
    json.dumps({**document(), "round": "3"}),
    json.dumps({**document(), "round": 10**40}),
    json.dumps({**document(), "metrics": [1]}),
    json.dumps({**document(), "outcome": ["Succeeded"]}),
    json.dumps({**document(), "extra": "x" * 5000}),
    json.dumps({**document(), "outcome": "Failed", "failure": [1]}),
]
FAILURE = {
    "worker": 1,
    "rank": 3,
    "exitCode": 65,
    "signal": None,
    "reason": "UserError",
    "message": "column 'labl' is missing",
}


def test_document_has_the_contract_s_keys() -> None:
    assert document(failure=FAILURE, outcome="Failed") == {
        "contract": 1,
        "jobUid": "uid-1",
        "worker": 0,
        "round": 3,
        "outcome": "Failed",
        "metrics": {"eval_accuracy": 0.97},
        "model": "/var/lib/xeontrain/mail-filter-0a1b2c3d/model",
        "failures": 1,
        "failure": FAILURE,
    }


def test_an_unknown_outcome_is_refused() -> None:
    with pytest.raises(ValueError, match="Done"):
        document(outcome="Done")


@given(
    message=st.text(st.characters(), max_size=6000),
    metrics=st.dictionaries(st.text(max_size=40), st.floats(), max_size=60),
    max_bytes=st.integers(512, 4096),
)
@settings(max_examples=100, deadline=None)
def test_any_document_fits(message: str, metrics: dict[str, float], max_bytes: int) -> None:
    """Whatever the text (any script, quotes, control characters, lone surrogates): valid and no larger."""
    whole = document(metrics=metrics, failure={**FAILURE, "message": message}, outcome="Failed")
    text = fit_document(whole, max_bytes=max_bytes)
    assert len(text.encode()) <= max_bytes
    fitted = json.loads(text)
    assert fitted["failure"]["message"][:20].rstrip(".") in message.encode(errors="replace").decode()
    assert {**fitted, "metrics": 0, "model": 0, "failure": 0} == {
        **whole, "metrics": 0, "model": 0, "failure": 0
    }  # fmt: skip


@pytest.mark.parametrize(
    ("message", "max_bytes", "metrics_kept", "message_kept"),
    [
        pytest.param("short", 4096, True, True, id="all-fits"),
        pytest.param("short", 512, False, True, id="metrics-go-first"),
        pytest.param("ü" * 3000, 512, False, False, id="then-the-message-is-cut"),
    ],
)
def test_order_of_what_is_left_out(
    message: str, max_bytes: int, metrics_kept: bool, message_kept: bool
) -> None:
    metrics = {f"eval_metric_{number}": 0.5 for number in range(20)}
    failure = {**FAILURE, "message": message}
    fitted = json.loads(
        fit_document(document(metrics=metrics, failure=failure, outcome="Failed"), max_bytes=max_bytes)
    )
    assert (fitted["metrics"] != {}) == metrics_kept
    assert (fitted["failure"]["message"] == message) == message_kept
    assert message_kept or fitted["failure"]["message"].startswith("üü")
    assert message_kept or fitted["failure"]["message"].endswith("...")


def test_as_much_of_the_message_as_fits_is_kept() -> None:
    text = fit_document(
        document(failure={**FAILURE, "message": "x" * 5000}, outcome="Failed"), max_bytes=1000
    )
    assert len(text) == 1000


def test_what_cannot_fit_is_an_error() -> None:
    with pytest.raises(ValueError, match="64 are allowed"):
        fit_document(document(), max_bytes=64)


def test_termination_message_is_written_over_the_old(tmp_path: Path) -> None:
    """The kubelet mounts the file itself: same inode, and nothing of a longer text before stays."""
    path = tmp_path / "termination-log"
    path.write_text("x" * 5000)
    inode = path.stat().st_ino
    write_termination(str(path), document(), max_bytes=4096)
    assert json.loads(path.read_text()) == document()
    assert path.stat().st_ino == inode


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            '{"metrics": {"loss": 0.5, "n": 3}, "model": "/m"}',
            FinalMetrics({"loss": 0.5, "n": 3}, "/m"),
            id="ours",
        ),
        pytest.param('{"accuracy": 0.9, "name": "x"}', FinalMetrics({"accuracy": 0.9}, None), id="flat"),
        pytest.param(
            '{"metrics": {"a": NaN, "b": 1e999, "c": true, "d": "1"}, "model": 7}',
            FinalMetrics({}, None),
            id="not-numbers",
        ),
        pytest.param(
            '{"metrics": {"a": 1' + "0" * 400 + ', "b": -1' + "0" * 400 + ', "c": 2}}',
            FinalMetrics({"c": 2}, None),
            id="integers-beyond-floats",
        ),
        pytest.param("[1]", FinalMetrics({}, None), id="a-list"),
        pytest.param('{"metr', FinalMetrics({}, None), id="cut"),
        pytest.param("[" * 100000, FinalMetrics({}, None), id="too-deep"),
        pytest.param(None, FinalMetrics({}, None), id="missing"),
    ],
)
def test_metrics_file(tmp_path: Path, text: str | None, expected: FinalMetrics) -> None:
    path = tmp_path / "metrics.json"
    if text is not None:
        path.write_text(text)
    assert read_metrics(str(path)) == expected


def test_metrics_that_are_not_finite_never_reach_the_document() -> None:
    assert document(metrics={"a": math.nan, "b": -math.inf, "c": 1})["metrics"] == {"c": 1}


def test_what_is_written_can_be_told() -> None:
    """The gang takes every document that is written here, whatever a rank has left as metrics."""
    metrics = {f"m{number}": 10**number for number in range(400)}
    written = document(metrics=metrics)
    assert len(written["metrics"]) == 256
    assert read_verdict(Fields(written, name="verdict"), job_uid="uid-1") == written


def test_start_numbers_count_up(tmp_path: Path) -> None:
    """Also over a rubbish file: a start number is only ever too high, never repeated in one life."""
    folder = tmp_path / "state"
    assert [StateDir(str(folder)).next_start() for _ in range(3)] == [1, 2, 3]
    for rubbish in ("rubbish", "9" * 30):
        (folder / "starts").write_text(rubbish)
        assert StateDir(str(folder)).next_start() == 1


def test_marker_of_this_job_only(tmp_path: Path) -> None:
    state = StateDir(str(tmp_path))
    assert state.read_marker(job_uid="uid-1") is None
    state.write_marker(document())
    assert state.read_marker(job_uid="uid-1") == document()
    assert state.read_marker(job_uid="uid-2") is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"jobUid": "uid-1", "outcome": "Maybe"}', *DAMAGED])
def test_a_marker_that_says_nothing_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "marker.json").write_text(text)
    assert StateDir(str(tmp_path)).read_marker(job_uid="uid-1") is None


@pytest.mark.parametrize("kind", [StateDir, JobDir])
def test_round_numbers_only_rise(tmp_path: Path, kind: type[StateDir] | type[JobDir]) -> None:
    folder = kind(str(tmp_path / "x"))
    assert folder.read_round() == 0
    for number in (4, 2, 0):
        folder.write_round(number)
        assert folder.read_round() == 4


@pytest.mark.parametrize(
    "text", ["", "{", '{"round": true}', '{"round": "3"}', '{"round": -1}', '{"round": 1' + "0" * 40 + "}"]
)
def test_a_rubbish_round_file_is_round_zero(tmp_path: Path, text: str) -> None:
    (tmp_path / "round.json").write_text(text)
    assert JobDir(str(tmp_path)).read_round() == 0


def test_job_folder(tmp_path: Path) -> None:
    """The result is found by the next pod of the same job, the model once something is in its folder."""
    job = JobDir(str(tmp_path))
    assert job.read_result(job_uid="uid-1") is None
    job.write_result(document())
    assert job.read_result(job_uid="uid-1") == document()
    assert job.read_result(job_uid="uid-2") is None
    (tmp_path / "model").mkdir()
    assert job.model_path() is None
    (tmp_path / "model" / "config.json").write_text("{}")
    assert job.model_path() == str(tmp_path / "model")


def test_without_storage_nothing_is_kept() -> None:
    job = JobDir(None)
    job.write_result(document())
    job.write_round(3)
    assert (job.read_result(job_uid="uid-1"), job.read_round(), job.model_path()) == (None, 0, None)


def test_a_failed_write_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    files.write_json(str(path), {"old": 1})

    def refuse(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(files.os, "fsync", refuse)
    with pytest.raises(OSError, match="disk full"):
        files.write_json(str(path), {"new": 1})
    assert json.loads(path.read_text()) == {"old": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.timeout(60)
def test_a_pipe_in_place_of_a_file_is_no_file(tmp_path: Path) -> None:
    """A program may leave one under our names; opening it must not wait for a writer."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert files.read_json(str(pipe)) is None
    assert files.read_number(str(pipe)) == 0
    assert read_metrics(str(pipe)) == FinalMetrics({}, None)
    assert ProgressTail(str(pipe)).poll() is None
