"""Scores of classes: those of scikit-learn, also where it would divide by zero."""

from __future__ import annotations

import pytest
from xeontrain_trainer.train.scores import class_scores


@pytest.mark.parametrize(
    ("true", "predicted", "expected"),
    [
        ([0, 0, 1, 1], [0, 0, 1, 0], {"accuracy": 0.75, "f1": (4 / 5 + 2 / 3) / 2}),
        ([0, 0, 0], [0, 0, 0], {"accuracy": 1.0, "f1": 1.0}),
        ([0, 0], [1, 1], {"accuracy": 0.0, "f1": 0.0}),
    ],
    ids=["one-of-four-wrong", "one-class-all-found", "all-wrong"],
)
def test_scores(true: list[int], predicted: list[int], expected: dict[str, float]) -> None:
    """Accuracy, and F1 averaged over the classes that occur."""
    assert class_scores(true, predicted) == pytest.approx(expected)
