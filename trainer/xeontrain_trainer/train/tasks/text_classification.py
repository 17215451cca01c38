"""text-classification: one class for a text, or for a pair of texts."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..labels import label_name
from .task import Collator, Encoder, Task

if TYPE_CHECKING:
    import datasets
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from ..rows import Rows


_AT = "spec.training.dataset.columns"
_LABEL = f"{_AT}.label"


class TextClassification(Task):
    """Rows of `text`, `textPair` where the job names it, and `label`; a row is a sample and an item."""

    auto_model = "AutoModelForSequenceClassification"

    def columns(self) -> dict[str, str]:
        """The texts and the label."""
        pair = {f"{_AT}.textPair": self.names.text_pair} if self.names.text_pair else {}
        return {f"{_AT}.text": self.names.text, **pair, _LABEL: self.names.label}

    def check(self, rows: Rows) -> Rows:
        """Texts are there, labels are plain values."""
        from ..checks import check_label, check_text, with_class_names

        *texts, (field, column) = self.columns().items()
        for text_field, text in texts:
            check_text(rows, field=text_field, column=text)
        check_label(rows, field=field, column=column)
        return with_class_names(rows, column=column)

    def labels(self, rows: Mapping[str, Rows]) -> tuple[str, ...]:
        """The classes of the training rows."""
        from ..checks import find_classes

        return find_classes(rows, field=_LABEL, column=self.names.label)

    def encoder(self, processor: Any, *, labels: Sequence[str], evaluation: bool) -> Encoder:
        """Texts, cut to maxLength, as tokens; labels as class numbers."""
        numbers = {name: number for number, name in enumerate(labels)}
        names, max_length = self.names, self.config.hyperparameters.max_length

        def encode(batch: dict[str, list[Any]], rows: list[int]) -> dict[str, list[Any]]:
            pair = batch[names.text_pair] if names.text_pair else None
            tokens = processor(batch[names.text], pair, truncation=True, max_length=max_length)
            return {
                **{name: tokens[name] for name in ("input_ids", "token_type_ids") if name in tokens},
                "labels": [
                    numbers[label_name(value, field=_LABEL, where="a row")] for value in batch[names.label]
                ],
                "row": rows,
                "length": [len(ids) for ids in tokens["input_ids"]],
                "items": [1] * len(rows),
            }

        return encode

    def collator(self, processor: Any) -> Collator:
        """input_ids, attention_mask (and token_type_ids): [samples, longest]; labels: [samples]."""
        from ..tokenizer import pad

        return functools.partial(pad, tokenizer=processor)

    def summed_loss(self, outputs: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Cross-entropy."""
        from torch.nn import functional

        return functional.cross_entropy(outputs.logits.float(), batch["labels"], reduction="sum")

    @property
    def prediction_width(self) -> int:
        """The class."""
        return 1

    def predictions(self, outputs: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The most likely class of each sample."""
        return outputs.logits.argmax(dim=-1, keepdim=True)

    def metrics(
        self,
        predictions: NDArray[np.float32],
        *,
        loss: float,
        samples: datasets.Dataset,
        rows: datasets.Dataset | None,
        labels: Sequence[str],
    ) -> dict[str, float]:
        """`accuracy` and macro `f1`."""
        from ..scores import class_scores

        return class_scores(samples.with_format("numpy")["labels"][:], predictions[:, 0].astype(int))
