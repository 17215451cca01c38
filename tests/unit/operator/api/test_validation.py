"""`xeontrain validate` takes and refuses what the table says, and names the field."""

from __future__ import annotations

import pytest
from xeontrain_operator.api.validation import validate_job

from tests.contract.cases.changes import CHANGES, Change
from tests.contract.cases.creation import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_creation(case: Case) -> None:
    """A refused job has a problem at its field, in the words of the rule; a taken one has none."""
    problems = validate_job(case.document)
    if case.refused_at is None:
        assert problems == []
    else:
        assert any(p.path.startswith(case.refused_at) and case.says in p.message for p in problems), problems


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.id)
def test_change(change: Change) -> None:
    """A field that cannot change is named; both documents are taken where they are new."""
    assert validate_job(change.before) == []
    assert validate_job(change.after) == []
    problems = validate_job(change.after, old=change.before)
    if change.refused_at is None:
        assert problems == []
    else:
        assert change.refused_at in {problem.path for problem in problems}
