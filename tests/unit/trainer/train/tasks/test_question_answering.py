"""Questions become windows that know where their answer is, and windows become answers again."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from xeontrain_trainer.train.config import Dataset, TrainingConfig
from xeontrain_trainer.train.errors import BadConfigError, BadDataError
from xeontrain_trainer.train.tasks import task_of

TASK = "question-answering"
LONG = "the a to of for and meeting lunch thanks report tomorrow list winner prize cash offer free click " * 2


def row(context: str, answer: str | None, *, question: str = "the offer") -> dict[str, Any]:
    found = [] if answer is None else [answer]
    starts = [context.index(text) for text in found]
    return {"question": question, "context": context, "answers": {"text": found, "answer_start": starts}}


def answer_in(samples: Any, number: int, context: str) -> str | None:
    """The text that the positions of a sample of the evaluation point at; None for no answer."""
    sample = samples.table[number]
    start, end = sample["start_positions"], sample["end_positions"]
    if (start, end) == (sample["no_answer"], sample["no_answer"]):
        return None
    return context[sample["char_starts"][start] : sample["char_ends"][end]]


@pytest.mark.parametrize("answer", ["the", "lunch thanks", "click", None])
def test_positions_are_those_of_the_answer(samples_of: Callable[..., Any], answer: str | None) -> None:
    """In each window that holds the whole answer; in the others the positions say that there is none."""
    samples = samples_of(TASK, [row(LONG, answer)], split="eval", maxLength=24)
    found = [answer_in(samples, number, LONG) for number in range(len(samples.lengths))]
    assert len(found) > 2
    assert set(found) <= {answer, None}
    assert answer in found
    assert max(samples.lengths) <= 24


def test_windows_overlap_and_cover(samples_of: Callable[..., Any]) -> None:
    """Each word of the context is in a window, and each window but the first begins in the one before."""
    samples = samples_of(TASK, [row(LONG, None)], split="eval", maxLength=24)
    spans = [
        (sample["char_starts"][sample["context_first"]], sample["char_ends"][sample["context_last"]])
        for sample in samples.table
    ]
    assert spans[0][0] == 0
    assert spans[-1][1] == len(LONG.rstrip())
    assert all(later[0] < earlier[1] < later[1] for earlier, later in itertools.pairwise(spans))


def test_long_questions_are_cut(samples_of: Callable[..., Any]) -> None:
    """A question takes half of maxLength at most, so that windows of the context go forward."""
    samples = samples_of(TASK, [row(LONG, "click", question=LONG)], split="eval", maxLength=24)
    assert all(sample["context_first"] == 12 + 2 for sample in samples.table)


def test_answers_may_be_a_list_of_objects(samples_of: Callable[..., Any]) -> None:
    """The form of SQuAD's own file, and that of the Hub, give the same samples."""
    one = row("the prize", "prize")
    other = {**one, "answers": [{"text": "prize", "answer_start": 4}]}
    assert samples_of(TASK, [one]).table[:] == samples_of(TASK, [other]).table[:]


def test_best_answer_is_in_the_context(samples_of: Callable[..., Any]) -> None:
    """Not in the question, not before its own beginning, not in the padding, whatever the logits say."""
    samples = samples_of(TASK, [row("the prize to the winner", "prize"), row("a cash", "cash")])
    batch = samples.batch([0, 1])
    shape = batch["input_ids"].shape
    start, end = torch.zeros(shape), torch.zeros(shape)
    context = int(batch["context_first"][0])
    start[0, 1] = end[0, 2] = 9  # question
    start[0, context + 3] = end[0, context + 1] = 5  # reversed
    start[0, context + 1] = 4
    start[1, -1] = end[1, -1] = 9  # padding
    end[1, int(batch["context_last"][1])] = 1
    task = task_of(TrainingConfig(task=TASK, model="m", dataset=Dataset()))
    found = task.predictions(SimpleNamespace(start_logits=start, end_logits=end), batch)
    assert found[0].tolist() == [context + 1, context + 1, 9, 0]
    assert found[1, 1:].tolist() == [int(batch["context_last"][1]), 1, 0]


@pytest.mark.parametrize(
    ("answers", "found", "expected"),
    [
        (["prize"], [("prize", 1)], {"exactMatch": 1, "f1": 1}),
        (["the prize", "cash"], [("prize", 1), ("cash", -9)], {"exactMatch": 1, "f1": 1}),
        (["prize", None], [("prize", 1), ("cash", 1)], {"exactMatch": 0.5, "f1": 0.5}),
        (["prize", None], [("prize", 1), ("cash", -1)], {"exactMatch": 1, "f1": 1}),
        (["prize to"], [("prize", 1)], {"exactMatch": 0, "f1": 2 / 3}),
    ],
    ids=["found", "never-declines", "should-decline", "declines", "half"],
)
def test_metrics(
    samples_of: Callable[..., Any],
    answers: list[str | None],
    found: list[tuple[str, float]],
    expected: dict[str, float],
) -> None:
    """SQuAD's own: articles do not count; no answer is an answer where the rows have such questions.

    `found`: the words that are predicted, and their score where that of no answer is 0.
    """
    context = "the prize to cash"
    rows = [row(context, answer) for answer in answers]
    samples = samples_of(TASK, rows, split="eval")
    predictions = np.zeros((len(rows), 4), dtype=np.float32)
    for number, (sample, (word, score)) in enumerate(zip(samples.table, found, strict=True)):
        place = sample["context_first"] + context.split().index(word)
        predictions[number] = [place, place, score, 0]
    task = task_of(TrainingConfig(task=TASK, model="m", dataset=Dataset()))
    table = datasets.Dataset.from_list(rows)
    scores = task.metrics(predictions, loss=1.0, samples=samples.table, rows=table, labels=())
    assert scores == pytest.approx(expected)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"answers": {"text": ["prize"], "answer_start": [3]}}, r"in 1 of 1 rows .* \(the first is row 1\)"),
        ({"answers": {"text": ["prize"], "answer_start": [-5]}}, "other words than the answer"),
        ({"answers": "prize"}, "holds .*string.*, not answers"),
        ({"answers": None}, "answers"),
        ({"question": None}, "no text in 'question'"),
    ],
    ids=["moved", "negative", "text", "none", "no-question"],
)
def test_unusable_rows(samples_of: Callable[..., Any], change: dict[str, Any], text: str) -> None:
    """An answer that is not where it should be would be learned wrong, so it is the user's error."""
    with pytest.raises(BadDataError, match=text):
        samples_of(TASK, [{**row("the prize", "prize"), **change}])


def test_too_short_for_windows(samples_of: Callable[..., Any]) -> None:
    """A maxLength that leaves no room for the context is named."""
    with pytest.raises(BadConfigError, match=r"maxLength: 23 tokens cannot hold .* Write 24 or more"):
        samples_of(TASK, [row("the prize", "prize")], maxLength=23)
