"""Scores of classes, entities and answers, by hand where they can be counted."""

from __future__ import annotations

import pytest
from xeontrain_trainer.train.scores import answer_scores, class_scores, entity_scores


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


@pytest.mark.parametrize(
    ("true", "predicted", "expected"),
    [
        ("B-A I-A O B-B", "B-A I-A O B-B", (1, 1, 1)),
        ("B-A I-A O B-B", "B-A O O B-B", (1 / 2, 1 / 2, 1 / 2)),
        ("B-A I-A O B-B", "B-A I-A O B-A", (1 / 2, 1 / 2, 1 / 2)),
        ("B-A I-A O B-B", "B-A I-A O O", (1, 1 / 2, 2 / 3)),
        ("B-A B-A O O", "B-A I-A O O", (0, 0, 0)),
        ("I-A I-A O O", "B-A I-A O O", (1, 1, 1)),
        ("B-A E-A O S-B", "B-A L-A O U-B", (1, 1, 1)),
        ("O O O O", "O O O O", (0, 0, 0)),
    ],
    ids=["all", "too-short", "other-type", "missed", "joined", "without-b", "iobes-and-bilou", "none"],
)
def test_entities(true: str, predicted: str, expected: tuple[float, float, float]) -> None:
    """An entity is found where its boundaries and its type are right: CoNLL's rule."""
    scores = entity_scores([true.split()], [predicted.split()])
    assert tuple(scores[name] for name in ("precision", "recall", "f1")) == pytest.approx(expected)


def test_entities_end_with_their_sentence() -> None:
    """What ends one sentence and begins the next are two entities; all sentences count together."""
    scores = entity_scores([["O", "B-A"], ["I-A", "O"]], [["O", "B-A"], ["O", "O"]])
    assert scores == pytest.approx({"precision": 1, "recall": 0.5, "f1": 2 / 3})


def test_answers() -> None:
    """The best of the right answers counts; no answer is right only where there is none."""
    scores = answer_scores([["The Cat!", "a dog"], [], ["a big dog"], []], ["cat", "", "dog", "dog"])
    assert scores == pytest.approx({"exactMatch": 0.5, "f1": (1 + 1 + 2 / 3 + 0) / 4})
