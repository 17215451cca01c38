"""Each word is learned once, by its first token, however long its sentence is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from xeontrain_trainer.train.config import Dataset, TrainingConfig
from xeontrain_trainer.train.data import load_samples
from xeontrain_trainer.train.errors import BadDataError
from xeontrain_trainer.train.tasks import task_of

from tests.unit.trainer.train import jobs, tiny

TASK = "token-classification"
O, BAIT = 0, 1  # the tags below in their order  # noqa: E741


def test_first_tokens_have_the_tags(samples_of: Callable[..., Any]) -> None:
    """Special tokens and padding are not counted; the number of items is that of the words."""
    rows = [{"tokens": ["the", "prize"], "tags": ["A", "B"]}, {"tokens": ["cash"], "tags": ["B"]}]
    samples = samples_of(TASK, rows)
    assert samples.batch([0, 1])["labels"].tolist() == [[-100, O, BAIT, -100], [-100, BAIT, -100, -100]]
    assert samples.items == (2, 1)


def test_later_tokens_of_a_word_are_not_counted(samples_of: Callable[..., Any]) -> None:
    """A word of three tokens has one tag: that of its first."""
    rows = [{"tokens": ["prize,cash", "lunch"], "tags": ["B", "A"]}]
    assert samples_of(TASK, rows).table["labels"][:] == [[-100, BAIT, -100, -100, O, -100]]


def test_long_sentences_lose_no_word(samples_of: Callable[..., Any]) -> None:
    """What does not fit into maxLength goes on in the next sample, also in the middle of a word."""
    words = ["a", "to", "prize,cash", "lunch", "of", "free"]
    tags = ["A", "A", "B", "A", "A", "B"]
    samples = samples_of(TASK, [{"tokens": words, "tags": tags}], maxLength=5)
    counted = [[tag for tag in row if tag != -100] for row in samples.table["labels"]]
    assert counted == [[O, O, BAIT], [O], [O, BAIT]]
    assert samples.items == tuple(map(len, counted))
    assert samples.table["row"][:] == [0, 0, 0]


def test_named_tags_keep_their_order(tiny_models: jobs.Models, tmp_path: Path) -> None:
    """Tags as numbers with names beside them, as on the Hub, keep these names and numbers."""
    features = datasets.Features(
        {
            "tokens": datasets.List(datasets.Value("string")),
            "ner_tags": datasets.List(datasets.ClassLabel(names=["O", "B-X", "I-X"])),
        }
    )
    content = {"tokens": [["a", "prize"], ["to"]], "ner_tags": [[0, 1], [0]]}
    datasets.Dataset.from_dict(content, features=features).to_parquet(tmp_path / "a.parquet")
    block = {
        **tiny.training(tiny_models.bert, train=[str(tmp_path / "a.parquet")]),
        "task": TASK,
        "dataset": {"files": {"train": [str(tmp_path / "a.parquet")]}, "columns": {"tags": "ner_tags"}},
    }
    prepared = tiny.prepare(block)
    assert prepared.labels == ("O", "B-X", "I-X")
    labels = load_samples(prepared, "train")["labels"][:]
    assert labels == [[-100, 0, 1, -100], [-100, 0, -100]]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (["O", "B-X", "I-X", "O"], {"accuracy": 0.75, "precision": 0.5, "recall": 1, "f1": 2 / 3}),
        (["NOUN", "VERB", "VERB", "NOUN"], {"accuracy": 0.75, "f1": (0.8 + 2 / 3) / 2}),
    ],
    ids=["entities", "parts-of-speech"],
)
def test_metrics(samples_of: Callable[..., Any], tags: list[str], expected: dict[str, float]) -> None:
    """Entities are counted whole, over the samples of a row; tags that mark no entities as they are."""
    rows = [{"tokens": ["a", "prize", "cash", "to"], "tags": tags}]
    samples = samples_of(TASK, rows, split="eval", maxLength=5)
    labels = sorted(set(tags))
    predictions = np.zeros((len(samples.lengths), 5), dtype=np.float32)
    for place, row in enumerate(samples.table["labels"]):
        predictions[place, : len(row)] = [max(0, label) for label in row]
    # The last word, of the second sample, is found to be what the first entity or the second word is.
    predictions[1, 1] = labels.index(tags[1])
    task = task_of(TrainingConfig(task=TASK, model="m", dataset=Dataset()))
    found = task.metrics(predictions, loss=1.0, samples=samples.table, rows=None, labels=labels)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([(["a"], ["A"]), (["a", "to"], ["B"])], "1 of 2 rows .* the first is row 2 with 2 words and 1 tags"),
        ([("a to", "A A")], "not a list of words a row"),
        ([([1], ["A"]), ([2], ["B"])], "not a list of words a row"),
        ([(["a", "to"], ["A", None])], "rows without a label"),
        ([(["a"], ["A"]), (["a"], None)], "1 of 2 rows .* have no list in 'tags'"),
        ([(["a", "to"], ["A", "A"])], "only the label 'A'"),
    ],
    ids=["counts", "texts", "numbers", "no-tag", "no-tags", "one-tag"],
)
def test_unusable_rows(samples_of: Callable[..., Any], rows: list[tuple[Any, Any]], text: str) -> None:
    """Words without tags are the user's error, with the first such row."""
    with pytest.raises(BadDataError, match=text):
        samples_of(TASK, [{"tokens": tokens, "tags": tags} for tokens, tags in rows])
