"""Metrics, computed by libraries: scikit-learn, nervaluate and torchmetrics. All from 0 to 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

_AS_IOB = {"S": "B", "U": "B", "E": "I", "L": "I"}


def class_scores(true: ArrayLike, predicted: ArrayLike) -> dict[str, float]:
    """`accuracy` and macro `f1` of class numbers, one of each a row."""
    from sklearn.metrics import accuracy_score, f1_score

    both: tuple[Any, Any] = (true, predicted)
    return {
        "accuracy": float(accuracy_score(*both)),
        "f1": float(f1_score(*both, average="macro", zero_division=0.0)),
    }


def entity_scores(true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """`precision`, `recall` and `f1` of entities: found where boundaries and type are right (CoNLL's rule).

    Tags in IOB, IOBES or BILOU, a list for each sentence.
    """
    from nervaluate.entities import EvaluationResult
    from nervaluate.loaders import ListLoader
    from nervaluate.strategies import StrictEvaluation

    known, found = (
        ListLoader().load([[_iob(tag) for tag in row] for row in side]) for side in (true, predicted)
    )
    types = sorted({entity.label for row in (*known, *found) for entity in row})
    total = EvaluationResult()
    for one, other in zip(known, found, strict=True):
        result, _ = StrictEvaluation().evaluate(one, other, types)
        for name in ("correct", "incorrect", "missed", "spurious"):
            setattr(total, name, getattr(total, name) + getattr(result, name))
    total.compute_metrics()
    return {"precision": float(total.precision), "recall": float(total.recall), "f1": float(total.f1)}


def answer_scores(true: Sequence[Sequence[str]], predicted: Sequence[str]) -> dict[str, float]:
    """`exactMatch` and `f1` as SQuAD defines them. `true[i]`: the right answers to i; none: no answer, ""."""
    from torchmetrics.functional.text import squad

    found: list[Any] = [{"id": str(number), "prediction_text": text} for number, text in enumerate(predicted)]
    known: list[Any] = [
        {"id": str(number), "answers": {"text": list(texts) or [""]}} for number, texts in enumerate(true)
    ]
    scores: dict[str, Any] = squad(found, known)
    return {"exactMatch": float(scores["exact_match"]) / 100, "f1": float(scores["f1"]) / 100}


def _iob(tag: str) -> str:
    return tag if tag == "O" else _AS_IOB.get(tag[0], tag[0]) + tag[1:]
