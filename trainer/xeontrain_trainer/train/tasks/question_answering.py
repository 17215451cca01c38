"""question-answering: the piece of a text that answers a question, in the form of SQuAD."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import BadConfigError, BadDataError
from ..files import TABLES
from .task import COLUMNS, Collator, Encoder, Task

if TYPE_CHECKING:
    import datasets
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from ..rows import Rows

_QUESTION, _CONTEXT, _ANSWERS = f"{COLUMNS}.question", f"{COLUMNS}.context", f"{COLUMNS}.answers"
# Below, question, special tokens and the overlap of windows leave no room for the context.
_LEAST_LENGTH = 24
_POSITIONS = 2


class QuestionAnswering(Task):
    """Rows of `question`, `context` and `answers` (texts with their starts, none: not answerable).

    A context that does not fit into maxLength tokens with its question is cut into windows that overlap by a
    third of maxLength; each is a sample. Its items are two: where the answer begins and where it ends. In a
    window without the answer both are the first token, which stands for "no answer".
    """

    auto_model = "AutoModelForQuestionAnswering"
    formats: ClassVar = {**TABLES, ".json": "json or squad"}
    set_aside = ("char_starts", "char_ends")
    keeps_rows = True

    def columns(self) -> dict[str, str]:
        """Question, context and answers."""
        names = self.names
        return {_QUESTION: names.question, _CONTEXT: names.context, _ANSWERS: names.answers}

    def check(self, rows: Rows) -> Rows:
        """Texts are there, and each answer stands in its context where its start says."""
        from ..checks import check_present, check_text

        check_text(rows, field=_QUESTION, column=self.names.question)
        check_text(rows, field=_CONTEXT, column=self.names.context)
        check_present(rows, field=_ANSWERS, column=self.names.answers, what="answers")
        _check_form(rows, column=self.names.answers)
        _check_places(rows, context=self.names.context, answers=self.names.answers)
        return rows

    def load_processor(self, model_folder: str) -> Any:
        """The tokenizer. Raises BadConfigError where it or maxLength is not fit for windows."""
        from ..tokenizer import check_fast

        tokenizer = super().load_processor(model_folder)
        check_fast(tokenizer, lacks="where in the text a token stands")
        if self.config.hyperparameters.max_length < _LEAST_LENGTH:
            raise BadConfigError(
                "spec.training.hyperparameters.maxLength",
                cause=f"{self.config.hyperparameters.max_length} tokens cannot hold question and context",
                remedy=f"Write {_LEAST_LENGTH} or more; 384 is usual",
            )
        return tokenizer

    def encoder(self, processor: Any, *, labels: Sequence[str], evaluation: bool) -> Encoder:
        """Windows of question and context, with the positions of the first answer and of the context."""
        from ..tokenizer import model_inputs

        names, max_length = self.names, self.config.hyperparameters.max_length

        def encode(batch: dict[str, list[Any]], rows: list[int]) -> dict[str, list[Any]]:
            tokens = processor(
                _cut(batch[names.question], tokenizer=processor, max_tokens=max_length // 2),
                batch[names.context],
                truncation="only_second",
                max_length=max_length,
                stride=max_length // 3,
                return_overflowing_tokens=True,
                return_offsets_mapping=True,
            )
            sources = tokens["overflow_to_sample_mapping"]
            answers = [_first(list(answers_of(cell))) for cell in batch[names.answers]]
            windows = [
                _window(tokens, sample, answer=answers[source], tokenizer=processor)
                for sample, source in enumerate(sources)
            ]
            columns = {name: [window[name] for window in windows] for name in windows[0]}
            offsets = tokens["offset_mapping"] if evaluation else []
            places = {
                "char_starts": [[start for start, _ in sample] for sample in offsets],
                "char_ends": [[end for _, end in sample] for sample in offsets],
            }
            return {
                **model_inputs(tokens),
                **columns,
                **(places if evaluation else {}),
                "row": [rows[source] for source in sources],
                "items": [_POSITIONS] * len(sources),
            }

        return encode

    def collator(self, processor: Any) -> Collator:
        """Tokens as tensors [samples, longest]; positions of answer and context: [samples]."""
        import functools

        from ..tokenizer import pad

        return functools.partial(pad, tokenizer=processor)

    def model_options(self, labels: Sequence[str]) -> dict[str, Any]:
        """Two positions, whatever head the model had."""
        return {"num_labels": _POSITIONS}

    def summed_loss(self, outputs: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Cross-entropy of where the answer begins, and of where it ends, among the tokens of the sample.

        Padding is no place for an answer: how likely one is must not depend on what comes together.
        """
        import torch
        from torch.nn import functional

        padding = batch["attention_mask"] == 0
        start, end = (
            logits.float().masked_fill(padding, -torch.inf)
            for logits in (outputs.start_logits, outputs.end_logits)
        )
        return functional.cross_entropy(
            start, batch["start_positions"], reduction="sum"
        ) + functional.cross_entropy(end, batch["end_positions"], reduction="sum")

    @property
    def prediction_width(self) -> int:
        """First and last token of the best answer, its score, the score of no answer."""
        return 4

    def predictions(self, outputs: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The best answer of each window: the tokens in its context with the highest sum of logits."""
        import torch

        start, end = outputs.start_logits.float(), outputs.end_logits.float()
        places = torch.arange(start.shape[1])
        inside = (places >= batch["context_first"][:, None]) & (places <= batch["context_last"][:, None])
        pairs = (
            start.masked_fill(~inside, -torch.inf)[:, :, None] + end.masked_fill(~inside, -torch.inf)[:, None]
        )
        # An answer does not end before it begins.
        pairs = pairs.masked_fill(~torch.ones(len(places), len(places), dtype=torch.bool).triu(), -torch.inf)
        score, place = pairs.flatten(1).max(dim=1)
        none = batch["no_answer"][:, None]
        no_answer = start.gather(1, none).squeeze(1) + end.gather(1, none).squeeze(1)
        return torch.stack([place // len(places), place % len(places), score, no_answer], dim=1)

    def metrics(
        self,
        predictions: NDArray[np.float32],
        *,
        loss: float,
        samples: datasets.Dataset,
        rows: datasets.Dataset | None,
        labels: Sequence[str],
    ) -> dict[str, float]:
        """`exactMatch` and `f1` of the answers, as SQuAD defines them, from 0 to 1."""
        from ..scores import answer_scores

        assert rows is not None
        true = [[text for text, _ in answers_of(cell)] for cell in rows[self.names.answers]]
        # SQuAD 2's rule, where there are questions without answer at all.
        may_decline = not all(true)
        contexts = rows[self.names.context][:]
        best: dict[int, tuple[float, str]] = {}
        declined: dict[int, float] = {}
        columns = samples.select_columns(["row", *self.set_aside])
        for sample, (first, last, score, no_answer) in zip(columns, predictions, strict=True):
            row = sample["row"]
            declined[row] = min(float(no_answer), declined.get(row, float("inf")))
            if row not in best or score > best[row][0]:
                start, end = sample["char_starts"][int(first)], sample["char_ends"][int(last)]
                best[row] = (float(score), contexts[row][start:end])
        found = [
            "" if may_decline and declined[row] > best[row][0] else best[row][1] for row in range(len(true))
        ]
        return answer_scores(true, found)


def answers_of(cell: Any) -> Iterator[tuple[str, int]]:
    """The answers of a row with their starts: an object of two lists, or a list of objects."""
    if isinstance(cell, Mapping):
        yield from zip(cell["text"], cell["answer_start"], strict=True)
    else:
        yield from ((answer["text"], answer["answer_start"]) for answer in cell)


def _first(answers: list[tuple[str, int]]) -> tuple[int, int] | None:
    """Start and end of the first answer in the context; None where there is none."""
    return (answers[0][1], answers[0][1] + len(answers[0][0])) if answers else None


def _cut(questions: list[str], *, tokenizer: Any, max_tokens: int) -> list[str]:
    """The questions, each no longer than `max_tokens`."""
    tokens = tokenizer(
        questions,
        add_special_tokens=False,
        truncation=True,
        max_length=max_tokens,
        return_offsets_mapping=True,
    )
    ends = [offsets[-1][1] if offsets else 0 for offsets in tokens["offset_mapping"]]
    return [question[:end] for question, end in zip(questions, ends, strict=True)]


def _window(tokens: Any, sample: int, *, answer: tuple[int, int] | None, tokenizer: Any) -> dict[str, int]:
    """The positions of a window: of its context, of the answer, and of the token for "no answer"."""
    ids, offsets = tokens["input_ids"][sample], tokens["offset_mapping"][sample]
    part = tokens.sequence_ids(sample)
    context = [place for place, number in enumerate(part) if number == 1] or [0]
    none = ids.index(tokenizer.cls_token_id) if tokenizer.cls_token_id in ids else 0
    first = last = none
    if answer and offsets[context[0]][0] <= answer[0] and answer[1] <= offsets[context[-1]][1]:
        first = max(place for place in context if offsets[place][0] <= answer[0])
        last = min(place for place in context if offsets[place][1] >= answer[1])
    return {
        "start_positions": first,
        "end_positions": max(first, last),
        "context_first": context[0],
        "context_last": context[-1],
        "no_answer": none,
    }


def _check_form(rows: Rows, *, column: str) -> None:
    import datasets

    kind: Any = rows.table.features[column]
    # Where no row of a file has an answer, its lists are of nothing.
    kind = kind.feature if isinstance(kind, datasets.List) else kind
    empty = isinstance(kind, datasets.Value) and kind.dtype == "null"
    if not empty and not (isinstance(kind, Mapping) and {"text", "answer_start"} <= kind.keys()):
        raise BadDataError(
            _ANSWERS,
            cause=f"{column!r} of {rows.where} holds {kind}, not answers",
            remedy='Write {"text": ["..."], "answer_start": [0]} in JSON lines or Parquet',
        )


def _check_places(rows: Rows, *, context: str, answers: str) -> None:
    """Raise BadDataError where a context does not hold the answer at its start: it would be learned wrong."""
    wrong = [
        number
        for number, row in enumerate(rows.table.select_columns([context, answers]))
        if any(row[context][start : start + len(text)] != text for text, start in answers_of(row[answers]))
    ]
    if wrong:
        raise BadDataError(
            _ANSWERS,
            cause=f"in {len(wrong)} of {len(rows.table)} rows of {rows.where} (the first is row "
            f"{wrong[0] + 1}) the context has other words than the answer at answer_start",
            remedy="Count answer_start in characters from 0, or remove these rows",
        )
