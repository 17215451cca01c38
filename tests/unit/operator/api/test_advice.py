"""What is allowed and may surprise is said, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
from xeontrain_operator.api.advice import advice
from xeontrain_operator.api.v1alpha1 import parse_job

from tests.contract.cases.edits import COMMAND, TRAINING, Job, edited

KEPT = {"spec.storage": {"size": "1Gi"}}


@pytest.mark.parametrize(
    ("base", "edits", "paths"),
    [
        (TRAINING, KEPT, []),
        (TRAINING, {}, ["spec.storage"]),
        (COMMAND, {}, []),
        (TRAINING, {**KEPT, "spec.workers": 3}, []),
        (
            TRAINING,
            {**KEPT, "spec.workers": 3, "spec.ranksPerWorker": 1},
            ["spec.training.hyperparameters.batchSize"],
        ),
        (TRAINING, {**KEPT, "spec.workers": 2, "spec.ranksPerWorker": 4}, []),
        (COMMAND, {"spec.workers": 3, "spec.ranksPerWorker": 3}, []),
        (TRAINING, {**KEPT, "spec.checkpoint.keep": 5}, ["spec.checkpoint.keep"]),
        (COMMAND, {"spec.resources.memory": 32}, ["spec.resources.memory"]),
        (COMMAND, {"spec.resources.memory": "256Mi"}, []),
    ],
    ids=[
        "fine",
        "no-storage",
        "command",
        "auto",
        "uneven",
        "even",
        "command-uneven",
        "not-yet-honoured",
        "memory-without-unit",
        "little-memory",
    ],
)
def test_advice(base: Job, edits: dict[str, Any], paths: list[str]) -> None:
    """Each sentence stands at its field."""
    assert [problem.path for problem in advice(parse_job(edited(base, edits)).spec)] == paths
