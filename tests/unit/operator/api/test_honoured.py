"""A value that is accepted and not yet honoured is never ignored in silence."""

from __future__ import annotations

from typing import Any

import pytest
from xeontrain_operator.api.honoured import _ROWS, not_honoured
from xeontrain_operator.api.v1alpha1 import parse_job
from xeontrain_operator.api.validation import validate_job

from tests.contract.cases.edits import TRAINING, edited

# One document for each row; a row without one, or one without its row, fails below.
ASKING: dict[str, Any] = {
    "spec.runPolicy.suspend": True,
    "spec.runPolicy.preRunningDeadlineSeconds": 60,
}
ROWS = [row.path for row in _ROWS]


def test_defaults_are_honoured() -> None:
    """A job that asks for nothing special has no such condition."""
    assert not_honoured(parse_job(TRAINING).spec) == []


@pytest.mark.parametrize("path", ROWS)
def test_row(path: str) -> None:
    """A job that asks for the field is valid, and is told of this field alone."""
    document = edited(TRAINING, {path: ASKING[path]})
    assert validate_job(document) == []
    assert [problem.path for problem in not_honoured(parse_job(document).spec)] == [path]
