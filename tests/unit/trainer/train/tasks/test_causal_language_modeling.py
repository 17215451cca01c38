"""Texts are joined and cut: every token once, in order, nothing padded or lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xeontrain_trainer.train.config import Dataset, TrainingConfig
from xeontrain_trainer.train.errors import BadConfigError, BadDataError
from xeontrain_trainer.train.model import load_model
from xeontrain_trainer.train.tasks import task_of

from tests.unit.trainer.train import tiny

TASK = "causal-language-modeling"
END = tiny.VOCABULARY["[SEP]"]


def tokens(text: str) -> list[int]:
    return [tiny.VOCABULARY[word] for word in text.split()]


def test_texts_are_joined_and_cut(samples_of: Callable[..., Any]) -> None:
    """The end-of-text token stands after each text; an empty text is nothing; the last sample is shorter."""
    rows = [{"text": "the winner to the prize"}, {"text": ""}, {"text": "lunch"}]
    samples = samples_of(TASK, rows, maxLength=3)
    expected = [*tokens("the winner to the prize"), END, *tokens("lunch"), END]
    assert samples.table["input_ids"][:] == [expected[:3], expected[3:6], expected[6:]]
    assert (samples.lengths, samples.items) == ((3, 3, 2), (2, 2, 1))


def test_a_token_alone_is_no_sample(samples_of: Callable[..., Any]) -> None:
    """Nothing could be predicted in it."""
    samples = samples_of(TASK, [{"text": "the winner to"}], maxLength=3)
    assert samples.table["input_ids"][:] == [tokens("the winner to")]


def test_padding_is_not_predicted_but_the_end_is(samples_of: Callable[..., Any]) -> None:
    """GPT-2's tokenizer pads with the end of text: as padding it does not count, as an end it does."""
    rows = [{"text": "the winner to the prize lunch"}]
    batch = samples_of(TASK, rows, maxLength=4).batch([0, 1])
    assert batch["input_ids"].tolist() == [tokens("the winner to the"), [*tokens("prize lunch"), END, END]]
    assert batch["labels"].tolist() == [tokens("the winner to the"), [*tokens("prize lunch"), END, -100]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]


def test_texts_without_words(samples_of: Callable[..., Any]) -> None:
    """Nothing to learn from is the user's error."""
    with pytest.raises(BadDataError, match=r"columns\.text: the texts are empty"):
        samples_of(TASK, [{"text": ""}, {"text": ""}])


def test_a_model_that_reads_both_ways_is_refused(tiny_model: Path) -> None:
    """BERT would see the words that it is to predict, and reach a perplexity of 1 in no time."""
    task = task_of(TrainingConfig(task=TASK, model="m", dataset=Dataset()))
    with pytest.raises(BadConfigError, match=r"spec\.training\.model: a bert sees the words"):
        load_model(str(tiny_model), task=task, labels=(), dropout=None, seed=1)
