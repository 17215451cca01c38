"""text-classification: one class for a text, or for a pair of texts."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .classification import LABEL, Classification
from .task import COLUMNS, Collator, Encoder

if TYPE_CHECKING:
    from ..rows import Rows


class TextClassification(Classification):
    """Rows of `text`, `textPair` where the job names it, and `label`; a row is a sample and an item."""

    auto_model = "AutoModelForSequenceClassification"

    def columns(self) -> dict[str, str]:
        """The texts and the label."""
        pair = {f"{COLUMNS}.textPair": self.names.text_pair} if self.names.text_pair else {}
        return {f"{COLUMNS}.text": self.names.text, **pair, LABEL: self.names.label}

    def check(self, rows: Rows) -> Rows:
        """Texts are there, labels are plain values."""
        from ..checks import check_label, check_text, with_class_names

        *texts, (field, column) = self.columns().items()
        for text_field, text in texts:
            check_text(rows, field=text_field, column=text)
        check_label(rows, field=field, column=column)
        return with_class_names(rows, column=column)

    def encoder(self, processor: Any, *, labels: Sequence[str], evaluation: bool) -> Encoder:
        """Texts, cut to maxLength, as tokens; labels as class numbers."""
        from ..tokenizer import model_inputs

        numbers = self.class_numbers(labels)
        names, max_length = self.names, self.config.hyperparameters.max_length

        def encode(batch: dict[str, list[Any]], rows: list[int]) -> dict[str, list[Any]]:
            pair = batch[names.text_pair] if names.text_pair else None
            tokens = processor(batch[names.text], pair, truncation=True, max_length=max_length)
            return {
                **model_inputs(tokens),
                "labels": numbers(batch[names.label]),
                "row": rows,
                "items": [1] * len(rows),
            }

        return encode

    def collator(self, processor: Any) -> Collator:
        """input_ids, attention_mask (and token_type_ids): [samples, longest]; labels: [samples]."""
        from ..tokenizer import pad

        return functools.partial(pad, tokenizer=processor)
