"""Scores from the confusion matrix that all ranks add up."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score
from xeontrain_trainer.train.evaluate import scores


@pytest.mark.parametrize("num_classes", [2, 5])
def test_scores_are_those_of_the_rows(num_classes: int) -> None:
    """Counting rows by true and predicted class loses nothing that accuracy and F1 need."""
    chance = np.random.default_rng(num_classes)
    true, predicted = chance.integers(num_classes, size=(2, 200))
    confusion = np.zeros((num_classes, num_classes), dtype=np.int64)
    np.add.at(confusion, (true, predicted), 1)
    assert scores(confusion) == pytest.approx(
        {"accuracy": accuracy_score(true, predicted), "f1": f1_score(true, predicted, average="macro")}
    )


def test_one_right_class_is_perfect() -> None:
    """Evaluation rows of one class only, all found, are no division by zero."""
    assert scores(np.array([[5, 0], [0, 0]])) == {"accuracy": 1.0, "f1": 1.0}
