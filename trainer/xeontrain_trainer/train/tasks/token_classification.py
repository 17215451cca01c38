"""token-classification: a tag for each word, as in named entity recognition."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import BadDataError
from ..files import TABLES
from ..labels import Labels, label_name
from .task import COLUMNS, NOT_COUNTED, Collator, Encoder, Task

if TYPE_CHECKING:
    import datasets
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from ..rows import Rows

_TOKENS, _TAGS = f"{COLUMNS}.tokens", f"{COLUMNS}.tags"
# Tags of entities in any of the usual schemes: IOB, IOBES, BILOU.
_ENTITY_TAG = re.compile(r"O|[BIESLU]-.+")


class TokenClassification(Task):
    """Rows of `tokens` (words) and `tags`, a list each; CoNLL files have them too. An item is a word.

    Only the first token of a word is counted. What is longer than maxLength tokens is cut into several
    samples, so that no word is lost.
    """

    auto_model = "AutoModelForTokenClassification"
    formats: ClassVar = {**TABLES, ".conll": "conll", ".txt": "conll"}

    def columns(self) -> dict[str, str]:
        """Words and tags."""
        return {_TOKENS: self.names.tokens, _TAGS: self.names.tags}

    def check(self, rows: Rows) -> Rows:
        """Each row has as many tags as words."""
        from ..checks import check_present, with_class_names

        for field, column in self.columns().items():
            _check_lists(rows, field=field, column=column)
            check_present(rows, field=field, column=column, what="list")
        _check_counts(rows, tokens=self.names.tokens, tags=self.names.tags)
        return with_class_names(rows, column=self.names.tags)

    def labels(self, rows: Mapping[str, Rows]) -> tuple[str, ...]:
        """The tags of the training rows."""
        from ..checks import find_classes

        return find_classes(rows, field=_TAGS, column=self.names.tags)

    def load_processor(self, model_folder: str) -> Any:
        """The tokenizer, told that a word begins with a space where it is of a kind that wants to know."""
        from ..tokenizer import check_fast, load_tokenizer

        tokenizer = super().load_processor(model_folder)
        check_fast(tokenizer, lacks="which token belongs to which word")
        if getattr(tokenizer, "add_prefix_space", None) is False:
            return load_tokenizer(model_folder, add_prefix_space=True)
        return tokenizer

    def encoder(self, processor: Any, *, labels: Sequence[str], evaluation: bool) -> Encoder:
        """Words as tokens; the tag of a word as the label of its first token."""
        from ..tokenizer import model_inputs

        numbers = Labels(tuple(labels)).numbers()
        names, max_length = self.names, self.config.hyperparameters.max_length

        def encode(batch: dict[str, list[Any]], rows: list[int]) -> dict[str, list[Any]]:
            tokens = processor(
                batch[names.tokens],
                is_split_into_words=True,
                truncation=True,
                max_length=max_length,
                return_overflowing_tokens=True,
            )
            tags = [
                [numbers[label_name(tag, field=_TAGS, where="a row")] for tag in row]
                for row in batch[names.tags]
            ]
            sources = tokens["overflow_to_sample_mapping"]
            words = [tokens.word_ids(sample) for sample in range(len(sources))]
            found = _first_token_labels(words, sources=sources, tags=tags)
            return {
                **model_inputs(tokens),
                "labels": found,
                "row": [rows[source] for source in sources],
                "items": [sum(label != NOT_COUNTED for label in sample) for sample in found],
            }

        return encode

    def collator(self, processor: Any) -> Collator:
        """As tensors [samples, longest], the labels of padding not counted."""
        import torch

        from ..tokenizer import pad

        def collate(samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
            labels = [torch.tensor(sample["labels"]) for sample in samples]
            padded = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=NOT_COUNTED)
            return {**pad(samples, tokenizer=processor), "labels": padded}

        return collate

    def summed_loss(self, outputs: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Cross-entropy of the tags."""
        from torch.nn import functional

        logits, labels = outputs.logits.float().flatten(0, 1), batch["labels"].flatten()
        return functional.cross_entropy(logits, labels, ignore_index=NOT_COUNTED, reduction="sum")

    @property
    def prediction_width(self) -> int:
        """The tag of each token."""
        return self.config.hyperparameters.max_length

    def predictions(self, outputs: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The most likely tag of each token, 0 past the longest sample of the batch."""
        from torch.nn import functional

        tags = outputs.logits.argmax(dim=-1)
        return functional.pad(tags, (0, self.prediction_width - tags.shape[1]))

    def metrics(
        self,
        predictions: NDArray[np.float32],
        *,
        loss: float,
        samples: datasets.Dataset,
        rows: datasets.Dataset | None,
        labels: Sequence[str],
    ) -> dict[str, float]:
        """`accuracy` of tags; `precision`, `recall`, `f1` of entities, or macro `f1` where there are none."""
        from ..scores import class_scores, entity_scores

        true: dict[int, list[int]] = {}
        found: dict[int, list[int]] = {}
        columns = samples.select_columns(["row", "labels"])
        for sample, predicted in zip(columns, predictions.astype(int).tolist(), strict=True):
            places = [place for place, tag in enumerate(sample["labels"]) if tag != NOT_COUNTED]
            true.setdefault(sample["row"], []).extend(sample["labels"][place] for place in places)
            found.setdefault(sample["row"], []).extend(predicted[place] for place in places)
        tags = class_scores(*([tag for row in side.values() for tag in row] for side in (true, found)))
        if not all(map(_ENTITY_TAG.fullmatch, labels)):
            return tags
        named = ([[labels[tag] for tag in row] for row in side.values()] for side in (true, found))
        return {"accuracy": tags["accuracy"], **entity_scores(*named)}


def _first_token_labels(
    words: Sequence[Sequence[int | None]], *, sources: Sequence[int], tags: Sequence[Sequence[int]]
) -> list[list[int]]:
    """For each sample the tag of each token that is the first of its word, else NOT_COUNTED.

    `words[i][j]`: the word of token j of sample i, None for special tokens. Consecutive samples of one source
    go on where the one before was cut, maybe within a word.
    """
    labels = []
    last: tuple[int, int] | None = None
    for sample, source in zip(words, sources, strict=True):
        row = []
        for word in sample:
            first = word is not None and (source, word) != last
            row.append(tags[source][word] if first and word is not None else NOT_COUNTED)
            last = last if word is None else (source, word)
        labels.append(row)
    return labels


def _check_lists(rows: Rows, *, field: str, column: str) -> None:
    import datasets

    kind = rows.table.features[column]
    inner = getattr(kind, "feature", None)
    wanted = ("string", "large_string") if field == _TOKENS else None
    if isinstance(inner, datasets.ClassLabel | datasets.Value) and (wanted is None or inner.dtype in wanted):
        return
    raise BadDataError(
        field,
        cause=f"{column!r} of {rows.where} holds {kind}, not a list of {'words' if wanted else 'tags'} a row",
        remedy="Write lists in JSON lines or Parquet, or a CoNLL file",
    )


def _check_counts(rows: Rows, *, tokens: str, tags: str) -> None:
    from pyarrow import compute

    words, marks = (compute.list_value_length(rows.table.data.column(name)) for name in (tokens, tags))
    wrong = [number for number, (one, other) in enumerate(zip(words, marks, strict=True)) if one != other]
    if wrong:
        raise BadDataError(
            _TAGS,
            cause=f"{len(wrong)} of {len(words)} rows of {rows.where} have not as many tags as words, "
            f"the first is row {wrong[0] + 1} with {words[wrong[0]]} words and {marks[wrong[0]]} tags",
            remedy="Give each word one tag",
        )
