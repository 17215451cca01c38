"""Metrics that several tasks share, computed by scikit-learn."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike


def class_scores(true: ArrayLike, predicted: ArrayLike) -> dict[str, float]:
    """`accuracy` and macro `f1` of class numbers, one of each a row."""
    from sklearn.metrics import accuracy_score, f1_score

    both: tuple[Any, Any] = (true, predicted)
    return {
        "accuracy": float(accuracy_score(*both)),
        "f1": float(f1_score(*both, average="macro", zero_division=0.0)),
    }
