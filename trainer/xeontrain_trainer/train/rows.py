"""The rows of a split as a table of the needed columns, read and checked.

Imports datasets only when needed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .config import Dataset, HubDataset
from .errors import BadConfigError, BadDataError, MissingFileError, UserError, last_words
from .files import Source, check_columns, is_gzipped, open_bytes, parquet_rows
from .readers import READERS
from .tasks.task import Task

if TYPE_CHECKING:
    import datasets


@dataclass(frozen=True)
class Rows:
    """The rows of a split. `where` names them in errors.

    `classes` are the names of the label column's classes, in order, where the data says so itself; the
    table's labels are then these names. `folder` is where relative paths in the table begin, `stamp` stands
    for the content of files that the table only names.
    """

    table: datasets.Dataset
    where: str
    classes: tuple[str, ...] | None = None
    folder: str | None = None
    stamp: str = ""


def read_rows(dataset: Dataset, *, task: Task, sources: Mapping[str, Source]) -> dict[str, Rows]:
    """`train`, and `eval` where the job has one, with the columns that the task reads, as it checked them.

    `sources` are the files that `files.find_sources` found.
    Raises MissingFileError, BadDataError or BadConfigError, naming the field.
    """
    import datasets

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    if dataset.hub:
        splits = {"train": dataset.hub.train_split, "eval": dataset.hub.eval_split}
        rows = {
            name: Rows(
                table=_read_hub(dataset.hub, split, name=name), where=f"{dataset.hub.name}, split {split},"
            )
            for name, split in splits.items()
            if split
        }
    else:
        rows = {
            name: Rows(
                table=_read_files(source, columns=task.columns()),
                where=source.field,
                folder=_common_folder(source.paths),
            )
            for name, source in sources.items()
        }
    return {name: _checked(split, task=task) for name, split in rows.items()}


def _common_folder(paths: Sequence[str]) -> str | None:
    folders = {os.path.dirname(os.path.abspath(path)) for path in paths}
    return folders.pop() if len(folders) == 1 else None


def _read_files(source: Source, *, columns: Mapping[str, str]) -> datasets.Dataset:
    """All files of a split, in their order."""
    import datasets

    wanted = _wanted(columns)
    try:
        if source.format in READERS:
            reader = READERS[source.format]
            return datasets.Dataset.from_generator(
                reader.rows,
                features=reader.features(wanted),
                # Tuples, as lists would be shards to datasets. The stamps are there for its cache alone: a
                # file that changed is read again.
                gen_kwargs={"source": source, "columns": tuple(wanted), "stamps": _stamps(source.paths)},
            )
        parquet = source.format == "parquet"
        options: dict[str, Any] = {"columns": wanted} if parquet else {}
        files = {"train": _with_rows(source) if parquet else list(source.paths)}
        return datasets.load_dataset(source.format, data_files=files, split="train", **options)
    except UserError:
        raise
    except (
        datasets.exceptions.DatasetGenerationError,
        # What a gzipped file that was cut or damaged raises is no OSError.
        EOFError,
        OSError,
        ValueError,
        zlib.error,
    ) as error:
        raise _unreadable(source, error) from error


def _unreadable(source: Source, error: Exception) -> UserError:
    if isinstance(error.__cause__, UserError):
        return error.__cause__
    if "corresponds to no data" in str(error):
        return BadDataError(source.field, cause="the files have no rows", remedy="Give them rows")
    return BadDataError(
        source.field,
        cause=f"the files cannot be read: {last_words(error)}",
        remedy="Write them again in UTF-8, all with the same columns and types",
    )


def _stamps(paths: Sequence[str]) -> tuple[tuple[int, int], ...]:
    stats = [os.stat(path) for path in paths]
    return tuple((stat.st_size, stat.st_mtime_ns) for stat in stats)


def _with_rows(source: Source) -> list[str]:
    """The Parquet files that have rows, none gzipped: datasets fails on empty ones and on gzipped ones."""
    paths = [_unpacked(path) for path in source.paths if parquet_rows(path)]
    if not paths:
        raise BadDataError(source.field, cause="the files have no rows", remedy="Give them rows")
    return paths


def _unpacked(path: str) -> str:
    """The path of a file's plain content: itself, or for a gzipped one a copy in the datasets cache."""
    import datasets

    if not is_gzipped(path):
        return path
    folder = os.path.join(datasets.config.HF_DATASETS_CACHE, "xeontrain", "unpacked")
    stat = os.stat(path)
    key = hashlib.sha256(repr((os.path.abspath(path), stat.st_size, stat.st_mtime_ns)).encode()).hexdigest()
    target = os.path.join(folder, f"{key[:24]}.parquet")
    if not os.path.exists(target):
        os.makedirs(folder, exist_ok=True)
        with open_bytes(path) as packed, tempfile.NamedTemporaryFile(dir=folder, delete=False) as plain:
            shutil.copyfileobj(packed, plain)
        os.replace(plain.name, target)
    return target


def _read_hub(hub: HubDataset, split: str, *, name: str) -> datasets.Dataset:
    import datasets

    try:
        return datasets.load_dataset(hub.name, hub.config, split=split, revision=hub.revision)
    except (ConnectionError, FileNotFoundError, datasets.exceptions.DatasetNotFoundError) as error:
        raise MissingFileError(
            "spec.training.dataset.hub.name",
            cause=f"{hub.name!r} is not there, or the Hub cannot be reached ({last_words(error)})",
            remedy="Check its name, give the pods a way to huggingface.co (HTTPS_PROXY or HF_ENDPOINT "
            "in spec.env), or mount the data and use spec.training.dataset.files",
        ) from error
    except ValueError as error:
        raise BadConfigError(
            f"spec.training.dataset.hub.{name}Split",
            cause=f"{hub.name!r} cannot be read so: {last_words(error)}",
            remedy="Write a configuration and a split that it has",
        ) from error


def _checked(rows: Rows, *, task: Task) -> Rows:
    if len(rows.table) == 0:
        raise BadDataError(rows.where, cause="there are no rows", remedy="Give it rows")
    columns = task.columns()
    check_columns(columns, found=rows.table.column_names, where=rows.where)
    return task.check(dataclasses.replace(rows, table=rows.table.select_columns(_wanted(columns))))


def _wanted(columns: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys(columns.values()))
