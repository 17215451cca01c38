"""The model's tokenizer, fit for padding, and how many tokens the model takes."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from .errors import BadConfigError

if TYPE_CHECKING:
    import torch

_TOKENS = ("input_ids", "token_type_ids")


def load_tokenizer(model_folder: str, **options: Any) -> Any:
    """The tokenizer of a model, with a padding token. Raises BadConfigError where the model has none."""
    from transformers import AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    try:
        tokenizer = AutoTokenizer.from_pretrained(model_folder, **options)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise _no_tokenizer(model_folder, cause=" ".join(str(error).split())[:300]) from error
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        # transformers makes an empty tokenizer of a folder without one, and every word would be unknown.
        raise _no_tokenizer(model_folder, cause="it knows no words")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def model_inputs(tokens: Any) -> dict[str, list[Any]]:
    """What a sample keeps of a tokenizer's answer: the model's input, and `length`, its number of tokens."""
    kept = {name: tokens[name] for name in _TOKENS if name in tokens}
    return {**kept, "length": [len(ids) for ids in tokens["input_ids"]]}


def pad(samples: list[dict[str, Any]], *, tokenizer: Any) -> dict[str, torch.Tensor]:
    """The tensors of samples of one length each: their tokens padded to the longest, the rest numbers.

    Padded on the right, whatever the tokenizer prefers for generating text: a word's position must not depend
    on which samples come together.
    """
    import torch

    tokens = [{name: sample[name] for name in _TOKENS if name in sample} for sample in samples]
    padded = dict(tokenizer.pad(tokens, return_tensors="pt", padding_side="right"))
    rest = [name for name in samples[0] if name not in _TOKENS and not isinstance(samples[0][name], list)]
    return padded | {name: torch.tensor([sample[name] for sample in samples]) for name in rest}


def check_fast(tokenizer: Any, *, lacks: str) -> None:
    """Raise BadConfigError for a tokenizer that does not tell what `lacks` says: those in Python do not."""
    if not tokenizer.is_fast:
        raise BadConfigError(
            "spec.training.model",
            cause=f"its tokenizer does not tell {lacks}",
            remedy="Name a model with a tokenizer.json",
        )


def check_length(max_length: int, *, tokenizer: Any, model_folder: str) -> None:
    """Raise BadConfigError where the model has fewer positions than `max_length` tokens."""
    with open(os.path.join(model_folder, "config.json"), encoding="utf-8") as file:
        positions = json.load(file).get("max_position_embeddings") or tokenizer.model_max_length
    longest = min(int(positions), int(tokenizer.model_max_length))
    if max_length > longest:
        raise BadConfigError(
            "spec.training.hyperparameters.maxLength",
            cause=f"{max_length} is more than the {longest} tokens of the model",
            remedy=f"Write {longest} or less",
        )


def _no_tokenizer(model_folder: str, *, cause: str) -> BadConfigError:
    return BadConfigError(
        "spec.training.model",
        cause=f"its tokenizer cannot be loaded from {model_folder}: {cause}",
        remedy="Name a model whose folder has tokenizer.json or the vocabulary of its tokenizer",
    )
