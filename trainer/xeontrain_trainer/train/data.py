"""From rows to tokens: once in each worker, kept on disk for its other ranks and for the next start."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import hub
from .config import TrainingConfig
from .errors import BadConfigError, BadDataError
from .files import Source
from .labels import Labels, label_name
from .rows import Rows, find_classes, read_rows

if TYPE_CHECKING:
    import datasets

# Below this many rows a process more costs more than it saves.
ROWS_A_PROCESS = 4000
_MANIFEST = "prepared.json"


@dataclass(frozen=True)
class Prepared:
    """What the first rank of a worker leaves for the others: tokens on disk, and what they must know of them.

    `folder` holds `train` and, where `eval_rows` is not None, `eval`, as `datasets.load_from_disk` reads
    them, with the columns input_ids, token_type_ids where the model has them, labels (class numbers),
    length (tokens). `digest` is the same for the same rows, tokens and labels.
    """

    folder: str
    model_folder: str
    labels: tuple[str, ...]
    train_rows: int
    eval_rows: int | None
    digest: str

    def to_json(self) -> str:
        """As one line of JSON, for the manifest and the store."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Prepared:
        """Read what `to_json` wrote."""
        values = json.loads(text)
        return cls(**{**values, "labels": tuple(values["labels"])})


def prepare(
    config: TrainingConfig, *, sources: Mapping[str, Source], state_dir: str | None, processes: int
) -> Prepared:
    """Read, check and tokenize all rows, in up to `processes` processes where there are many rows.

    The datasets cache keeps the outcome under a key of all that it depends on, so a rank that starts again
    finds it there. Raises UserError for data or a model that cannot be used.
    """
    import datasets

    rows = read_rows(config.dataset, sources=sources)
    labels = find_classes(rows, column=config.dataset.columns.label)
    model_folder = hub.model_folder(config.model, revision=config.model_revision, state_dir=state_dir)
    key = _key(config, rows=rows, labels=labels, model_folder=model_folder)
    folder = os.path.join(datasets.config.HF_DATASETS_CACHE, "xeontrain", key)
    if os.path.exists(os.path.join(folder, _MANIFEST)):
        with open(os.path.join(folder, _MANIFEST), encoding="utf-8") as file:
            return Prepared.from_json(file.read())
    tokens = _tokenize(config, rows=rows, labels=labels, model_folder=model_folder, processes=processes)
    prepared = Prepared(
        folder=folder,
        model_folder=model_folder,
        labels=labels.names,
        train_rows=len(tokens["train"]),
        eval_rows=len(tokens["eval"]) if "eval" in tokens else None,
        digest=_digest(tokens, labels=labels),
    )
    _save(tokens, prepared=prepared)
    return prepared


def load_tokens(prepared: Prepared, split: str) -> datasets.Dataset:
    """The tokenized rows of `train` or `eval`, memory-mapped."""
    import datasets

    return datasets.load_from_disk(os.path.join(prepared.folder, split))


def load_tokenizer(model_folder: str) -> Any:
    """The tokenizer of a model, with a padding token. Raises BadConfigError where the model has none."""
    from transformers import AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    try:
        tokenizer = AutoTokenizer.from_pretrained(model_folder)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise _no_tokenizer(model_folder, cause=" ".join(str(error).split())[:300]) from error
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        # transformers makes an empty tokenizer of a folder without one, and every word would be unknown.
        raise _no_tokenizer(model_folder, cause="it knows no words")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _no_tokenizer(model_folder: str, *, cause: str) -> BadConfigError:
    return BadConfigError(
        "spec.training.model",
        cause=f"its tokenizer cannot be loaded from {model_folder}: {cause}",
        remedy="Name a model whose folder has tokenizer.json or the vocabulary of its tokenizer",
    )


def _tokenize(
    config: TrainingConfig, *, rows: Mapping[str, Rows], labels: Labels, model_folder: str, processes: int
) -> dict[str, datasets.Dataset]:
    tokenizer = load_tokenizer(model_folder)
    _check_length(config, tokenizer=tokenizer, model_folder=model_folder)
    columns, numbers = config.dataset.columns, labels.numbers()

    def encode(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        pair = batch[columns.text_pair] if columns.text_pair else None
        tokens = tokenizer(
            batch[columns.text], pair, truncation=True, max_length=config.hyperparameters.max_length
        )
        kept = {name: tokens[name] for name in ("input_ids", "token_type_ids") if name in tokens}
        return {
            **kept,
            "labels": [numbers[label_name(value, where="a row")] for value in batch[columns.label]],
            "length": [len(ids) for ids in tokens["input_ids"]],
        }

    return {
        name: split.table.map(
            encode,
            batched=True,
            remove_columns=split.table.column_names,
            num_proc=_num_processes(len(split.table), limit=processes),
            load_from_cache_file=False,
            # datasets would hash the tokenizer, whose state changes while it works.
            new_fingerprint=f"{split.table._fingerprint[:16]}-tokens",
        )
        for name, split in rows.items()
    }


def _num_processes(num_rows: int, *, limit: int) -> int | None:
    count = min(limit, num_rows // ROWS_A_PROCESS)
    return count if count > 1 else None


def _check_length(config: TrainingConfig, *, tokenizer: Any, model_folder: str) -> None:
    with open(os.path.join(model_folder, "config.json"), encoding="utf-8") as file:
        positions = json.load(file).get("max_position_embeddings") or tokenizer.model_max_length
    longest = min(int(positions), int(tokenizer.model_max_length))
    if config.hyperparameters.max_length > longest:
        raise BadConfigError(
            "spec.training.hyperparameters.maxLength",
            cause=f"{config.hyperparameters.max_length} is more than the {longest} tokens of the model",
            remedy=f"Write {longest} or less",
        )


def _key(config: TrainingConfig, *, rows: Mapping[str, Rows], labels: Labels, model_folder: str) -> str:
    """A name for the tokens: what they depend on, by content where it is known."""
    parts = {
        "rows": {name: split.table._fingerprint for name, split in rows.items()},
        "columns": dataclasses.asdict(config.dataset.columns),
        "labels": labels.names,
        "model": os.path.realpath(model_folder),
        "tokenizer": _stamps(model_folder),
        "maxLength": config.hyperparameters.max_length,
        "versions": [importlib.metadata.version(name) for name in ("datasets", "tokenizers", "transformers")],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


def _stamps(folder: str) -> list[tuple[str, int, int]]:
    """Size and time of the model's files but its weights: a model folder may be written again in place."""
    names = sorted(name for name in os.listdir(folder) if not name.endswith((".safetensors", ".bin")))
    stats = [(name, os.stat(os.path.join(folder, name))) for name in names]
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]


def _digest(tokens: Mapping[str, datasets.Dataset], *, labels: Labels) -> str:
    """A hash of what is learned from, the same in every worker that was given the same data."""
    digest = hashlib.sha256(json.dumps(labels.names).encode())
    for name in sorted(tokens):
        for column in ("length", "labels"):
            for chunk in tokens[name].data.column(column).chunks:
                digest.update(chunk.to_numpy(zero_copy_only=False).tobytes())
    return digest.hexdigest()[:24]


def _save(tokens: Mapping[str, datasets.Dataset], *, prepared: Prepared) -> None:
    """Write tokens and manifest in a folder of their own, then rename it: no rank ever sees half of it."""
    parent = os.path.dirname(prepared.folder)
    try:
        os.makedirs(parent, exist_ok=True)
        partial = tempfile.mkdtemp(prefix=".partial-", dir=parent)
        for name, table in tokens.items():
            table.save_to_disk(os.path.join(partial, name))
        with open(os.path.join(partial, _MANIFEST), "w", encoding="utf-8") as file:
            file.write(prepared.to_json())
        shutil.rmtree(prepared.folder, ignore_errors=True)
        os.replace(partial, prepared.folder)
    except OSError as error:
        raise BadDataError(
            "spec.training.dataset",
            cause=f"the tokens cannot be kept in {parent}: {error.strerror or error}",
            remedy="Give the pod more space there, or name another folder in HF_DATASETS_CACHE",
        ) from error
