"""Which run is gone on with, and from which checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from xeontrain_operator.api.v1alpha1 import XeonTrainJob
from xeontrain_operator.cli.run.unfinished import forget, last_checkpoint, recall, remember

from tests.contract.cases.edits import TRAINING, edited


def job(**edits: Any) -> XeonTrainJob:
    """A training with a UID."""
    return XeonTrainJob.model_validate(edited(TRAINING, {"metadata.uid": "uid-1", **edits}))


@pytest.mark.parametrize(
    ("edits", "goes_on"),
    [
        pytest.param({}, True, id="the-same"),
        pytest.param({"spec.workers": 2, "metadata.uid": "uid-2"}, True, id="other-workers"),
        pytest.param({"spec.runPolicy.gracePeriodSeconds": 60}, True, id="other-policy"),
        pytest.param({"spec.training.hyperparameters.seed": 7}, False, id="another-seed"),
    ],
)
def test_the_same_work_goes_on(tmp_path: Path, edits: dict[str, Any], *, goes_on: bool) -> None:
    """By what is trained, not by what it is trained on."""
    assert recall(tmp_path, job=job()) is None
    remember(tmp_path, job=job())
    assert recall(tmp_path, job=job(**edits)) == ("uid-1" if goes_on else None)


def test_a_run_with_a_verdict_is_over(tmp_path: Path) -> None:
    """Also where nothing was remembered."""
    remember(tmp_path, job=job())
    forget(tmp_path)
    forget(tmp_path)
    assert recall(tmp_path, job=job()) is None


@pytest.mark.parametrize("text", ["", "[]", '{"uid": 3}', "\\xff"])
def test_rubbish_is_no_run(tmp_path: Path, text: str) -> None:
    """The folder is the user's."""
    (tmp_path / "unfinished.json").write_text(text, encoding="utf-8")
    assert recall(tmp_path, job=job()) is None


def test_the_newest_checkpoint(tmp_path: Path) -> None:
    """By its step; what is not whole has another name."""
    assert last_checkpoint(tmp_path) is None
    for name in ("step-00000009", "step-00000010", ".tmp-11", "step-x"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    assert last_checkpoint(tmp_path) == 10
