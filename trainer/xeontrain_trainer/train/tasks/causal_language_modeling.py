"""causal-language-modeling: the next token of a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import BadConfigError, BadDataError
from .task import COLUMNS, NOT_COUNTED, Collator, Encoder, Task

if TYPE_CHECKING:
    import datasets
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import nn

    from ..rows import Rows

_TEXT = f"{COLUMNS}.text"


class CausalLanguageModeling(Task):
    """Rows of `text`, joined in their order and cut into samples of maxLength tokens; an item is a token.

    The model's end-of-text token stands between texts. The last sample is shorter; nothing is padded or lost.
    """

    auto_model = "AutoModelForCausalLM"

    def columns(self) -> dict[str, str]:
        """The text."""
        return {_TEXT: self.names.text}

    def check(self, rows: Rows) -> Rows:
        """Texts are there."""
        from ..checks import check_text

        check_text(rows, field=_TEXT, column=self.names.text)
        return rows

    def encoder(self, processor: Any, *, labels: Sequence[str], evaluation: bool) -> Encoder:
        """A text as its tokens and the end-of-text token; an empty one as nothing."""
        end, name = processor.eos_token_id, self.names.text

        def encode(batch: dict[str, list[Any]], rows: list[int]) -> dict[str, list[Any]]:
            texts = processor(batch[name])["input_ids"] if batch[name] else []
            tokens = [
                _ended(ids, end=end) if text else [] for text, ids in zip(batch[name], texts, strict=True)
            ]
            return {"input_ids": tokens}

        return encode

    def arrange(self, samples: datasets.Dataset) -> datasets.Dataset:
        """All texts' tokens, one after another, in pieces of maxLength; a last token alone is no sample."""
        import datasets
        import numpy as np
        import pyarrow

        chunks = samples.data.column("input_ids").chunks
        tokens = np.concatenate([chunk.flatten().to_numpy(zero_copy_only=False) for chunk in chunks])
        if len(tokens) < 2:
            raise BadDataError(_TEXT, cause="the texts are empty", remedy="Name a column of texts with words")
        size = self.config.hyperparameters.max_length
        if len(tokens) % size == 1:
            tokens = tokens[:-1]
        bounds = np.append(np.arange(0, len(tokens), size), len(tokens))
        lengths = np.diff(bounds)
        columns = {
            "input_ids": pyarrow.ListArray.from_arrays(bounds.astype(np.int32), tokens.astype(np.int32)),
            "length": lengths,
            "items": lengths - 1,
        }
        return datasets.Dataset(pyarrow.table(columns), fingerprint=f"{samples._fingerprint[:16]}-blocks")

    def collator(self, processor: Any) -> Collator:
        """input_ids and attention_mask: [samples, longest]; labels: the same tokens, padding not counted."""
        from ..tokenizer import pad

        def collate(samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
            batch = pad(samples, tokenizer=processor)
            labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, NOT_COUNTED)
            return {**batch, "labels": labels}

        return collate

    def model_options(self, labels: Sequence[str]) -> dict[str, Any]:
        """No more than the model's own."""
        return {}

    def ready(self, model: nn.Module) -> nn.Module:
        """Refuses a model that reads both ways: it would see the words that it is to predict."""
        from transformers import MODEL_FOR_MASKED_LM_MAPPING

        config: Any = model.config
        if type(config) in MODEL_FOR_MASKED_LM_MAPPING and not config.is_decoder:
            raise BadConfigError(
                "spec.training.model",
                cause=f"a {config.model_type} sees the words that it would have to predict",
                remedy="Name a model that generates text, such as HuggingFaceTB/SmolLM2-135M",
            )
        return model

    def summed_loss(self, outputs: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Cross-entropy of each token after the first, given those before it."""
        from torch.nn import functional

        logits, labels = outputs.logits[:, :-1].float().flatten(0, 1), batch["labels"][:, 1:].flatten()
        return functional.cross_entropy(logits, labels, ignore_index=NOT_COUNTED, reduction="sum")

    @property
    def prediction_width(self) -> int:
        """The loss tells all."""
        return 0

    def predictions(self, outputs: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """None."""
        return batch["input_ids"][:, :0]

    def metrics(
        self,
        predictions: NDArray[np.float32],
        *,
        loss: float,
        samples: datasets.Dataset,
        rows: datasets.Dataset | None,
        labels: Sequence[str],
    ) -> dict[str, float]:
        """`perplexity`: e to the loss of a token."""
        import numpy as np

        return {"perplexity": float(np.exp(loss))}


def _ended(tokens: list[int], *, end: int | None) -> list[int]:
    return tokens if end is None or tokens[-1:] == [end] else [*tokens, end]
