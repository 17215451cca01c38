"""From rows to samples: once in each worker, kept on disk for its other ranks and for the next start."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import hub
from .config import TrainingConfig
from .errors import BadDataError
from .files import Source
from .rows import Rows, read_rows
from .tasks.task import Task

if TYPE_CHECKING:
    import datasets

_MANIFEST = "prepared.json"
_EVAL_ROWS = "eval-rows"
# Raised when an encoder makes other samples of the same rows than in an earlier version of ours.
_VERSION = 1


@dataclass(frozen=True)
class Prepared:
    """What the first rank of a worker leaves for the others: samples on disk, and what to know of them.

    `folder` holds `train` and, where `eval_rows` is not None, `eval`, as `datasets.load_from_disk` reads
    them, with the columns that the task's encoder makes. `digest` is the same for the same
    samples and labels.
    """

    folder: str
    model_folder: str
    labels: tuple[str, ...]
    train_rows: int
    train_samples: int
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
    config: TrainingConfig,
    *,
    task: Task,
    sources: Mapping[str, Source],
    state_dir: str | None,
    processes: int,
) -> Prepared:
    """Read and check all rows and make the task's samples, of many rows in up to `processes` processes.

    The datasets cache keeps the outcome under a key of all that it depends on, so a rank that starts again
    finds it there. Raises UserError for data or a model that cannot be used.
    """
    import datasets

    rows = read_rows(config.dataset, task=task, sources=sources)
    labels = task.labels(rows)
    model_folder = hub.model_folder(config.model, revision=config.model_revision, state_dir=state_dir)
    key = _key(config, rows=rows, labels=labels, model_folder=model_folder)
    folder = os.path.join(datasets.config.HF_DATASETS_CACHE, "xeontrain", key)
    if os.path.exists(os.path.join(folder, _MANIFEST)):
        with open(os.path.join(folder, _MANIFEST), encoding="utf-8") as file:
            return Prepared.from_json(file.read())
    processor = task.load_processor(model_folder)
    samples = {
        name: _encode(name, split, task=task, processor=processor, labels=labels, processes=processes)
        for name, split in rows.items()
    }
    prepared = Prepared(
        folder=folder,
        model_folder=model_folder,
        labels=labels,
        train_rows=len(rows["train"].table),
        train_samples=len(samples["train"]),
        eval_rows=len(rows["eval"].table) if "eval" in rows else None,
        digest=_digest(samples, labels=labels),
    )
    kept = {_EVAL_ROWS: rows["eval"].table} if task.keeps_rows and "eval" in rows else {}
    _save(samples | kept, prepared=prepared)
    return prepared


def load_samples(prepared: Prepared, split: str) -> datasets.Dataset:
    """The samples of `train` or `eval`, memory-mapped."""
    import datasets

    return datasets.load_from_disk(os.path.join(prepared.folder, split))


def load_eval_rows(prepared: Prepared, *, task: Task) -> datasets.Dataset | None:
    """The evaluation rows themselves, memory-mapped, where the task's metrics need them."""
    import datasets

    return datasets.load_from_disk(os.path.join(prepared.folder, _EVAL_ROWS)) if task.keeps_rows else None


def _encode(
    name: str, rows: Rows, *, task: Task, processor: Any, labels: Sequence[str], processes: int
) -> datasets.Dataset:
    table = rows.table
    count = min(processes, len(table) // task.rows_a_process)
    samples = table.map(
        task.encoder(processor, labels=labels, evaluation=name == "eval"),
        batched=True,
        batch_size=task.rows_at_once,
        writer_batch_size=task.rows_at_once,
        with_indices=True,
        remove_columns=table.column_names,
        num_proc=count if count > 1 else None,
        load_from_cache_file=False,
        # datasets would hash the tokenizer, whose state changes while it works.
        new_fingerprint=f"{table._fingerprint[:16]}-samples",
    )
    return task.arrange(samples)


def _key(
    config: TrainingConfig, *, rows: Mapping[str, Rows], labels: Sequence[str], model_folder: str
) -> str:
    """A name for the samples: what they depend on, by content where it is known."""
    parts = {
        "task": config.task,
        "rows": {name: (split.table._fingerprint, split.stamp) for name, split in rows.items()},
        "columns": dataclasses.asdict(config.dataset.columns),
        "labels": list(labels),
        "model": os.path.realpath(model_folder),
        "tokenizer": _stamps(model_folder),
        "maxLength": config.hyperparameters.max_length,
        "version": _VERSION,
        "versions": [importlib.metadata.version(name) for name in ("datasets", "tokenizers", "transformers")],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


def _stamps(folder: str) -> list[tuple[str, int, int]]:
    """Size and time of the model's files but its weights: a model folder may be written again in place."""
    names = sorted(name for name in os.listdir(folder) if not name.endswith((".safetensors", ".bin")))
    stats = [(name, os.stat(os.path.join(folder, name))) for name in names]
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]


def _digest(samples: Mapping[str, datasets.Dataset], *, labels: Sequence[str]) -> str:
    """A hash of what is learned from, the same in every worker that was given the same data."""
    digest = hashlib.sha256(json.dumps(list(labels)).encode())
    for name in sorted(samples):
        for column in sorted(samples[name].column_names):
            for chunk in samples[name].data.column(column).chunks:
                _update(digest, chunk)
    return digest.hexdigest()[:24]


def _update(digest: hashlib._Hash, values: Any) -> None:
    """Take in the values of an Arrow array, however the table is cut into chunks."""
    import pyarrow

    while pyarrow.types.is_list(values.type) or pyarrow.types.is_large_list(values.type):
        values = values.flatten()
    if pyarrow.types.is_binary(values.type) or pyarrow.types.is_large_binary(values.type):
        for value in values:
            digest.update(value.as_buffer())
    else:
        digest.update(values.to_numpy(zero_copy_only=False).tobytes())


def _save(tables: Mapping[str, datasets.Dataset], *, prepared: Prepared) -> None:
    """Write samples and manifest in a folder of their own, then rename it: no rank ever sees half of it."""
    parent = os.path.dirname(prepared.folder)
    try:
        os.makedirs(parent, exist_ok=True)
        partial = tempfile.mkdtemp(prefix=".partial-", dir=parent)
        for name, table in tables.items():
            table.save_to_disk(os.path.join(partial, name))
        with open(os.path.join(partial, _MANIFEST), "w", encoding="utf-8") as file:
            file.write(prepared.to_json())
        _move_in(partial, folder=prepared.folder)
    except OSError as error:
        raise BadDataError(
            "spec.training.dataset",
            cause=f"the samples cannot be kept in {parent}: {error.strerror or error}",
            remedy="Give the pod more space there, or name another folder in HF_DATASETS_CACHE",
        ) from error


def _move_in(partial: str, *, folder: str) -> None:
    """Rename `partial` to `folder`. Where a worker that shares the cache came first, its samples, which have
    the same key, stay: it may be reading them."""
    try:
        os.replace(partial, folder)
        return
    except OSError:
        if not os.path.isdir(folder):
            raise
    if os.path.exists(os.path.join(folder, _MANIFEST)):
        shutil.rmtree(partial, ignore_errors=True)
    else:
        shutil.rmtree(folder)
        os.replace(partial, folder)
