"""Labels: strings and whole numbers become class numbers; everything else is refused with a sentence."""

from __future__ import annotations

from typing import Any

import pytest
from xeontrain_trainer.train.errors import BadDataError
from xeontrain_trainer.train.labels import Labels, find_labels

LABEL = "spec.training.dataset.columns.label"


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["spam", "ham"], ("ham", "spam")),
        ([10, 9, -1], ("-1", "9", "10")),
        (["10", "9"], ("9", "10")),
        (["10", "9", "x"], ("10", "9", "x")),
        ([True, False], ("False", "True")),
        (["9" * 5000, "10"], ("10", "9" * 5000)),
    ],
    ids=["strings", "numbers", "numbers-as-text", "mixed", "booleans", "no-number-of-this-world"],
)
def test_classes_are_ordered(values: list[Any], names: tuple[str, ...]) -> None:
    """The same labels give the same class numbers, whatever the rows' order and the file's format."""
    labels = find_labels(reversed(values), field=LABEL, where="rows")
    assert labels == find_labels(values, field=LABEL, where="rows") == Labels(names)
    assert labels.numbers() == {name: number for number, name in enumerate(names)}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (["ham", None], "without a label"),
        (["ham", ""], "without a label"),
        ([0.5, 1.5], "a float"),
        ([[1], [2]], "a list"),
        (["ham"], "only the label 'ham'"),
        ([], "no rows"),
    ],
    ids=["null", "empty", "fraction", "list", "one-class", "none"],
)
def test_unusable_labels(values: list[Any], text: str) -> None:
    """Labels that make no classes are bad data of the label column."""
    with pytest.raises(BadDataError, match=text) as raised:
        find_labels(values, field=LABEL, where="rows")
    assert raised.value.field == LABEL


def test_labels_of_evaluation_must_be_trained_on() -> None:
    """A label that only the evaluation rows have could never be predicted; it is named."""
    with pytest.raises(BadDataError, match=r"'phishing'.*'ham', 'spam'"):
        Labels(("ham", "spam")).check(
            ["ham", "phishing"], field=LABEL, where="spec.training.dataset.files.eval"
        )
    Labels(("0", "1")).check([0, "1"], field=LABEL, where="eval")
