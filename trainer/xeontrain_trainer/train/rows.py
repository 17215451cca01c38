"""The rows of a split as a table of the needed columns, read and checked.

Imports datasets only when needed.
"""

from __future__ import annotations

import csv
import hashlib
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .config import Columns, Dataset, HubDataset
from .errors import BadConfigError, BadDataError, MissingFileError, UserError, last_words
from .files import Source, check_columns, is_gzipped, open_bytes, open_text, parquet_rows
from .labels import Labels, find_labels

if TYPE_CHECKING:
    import datasets


@dataclass(frozen=True)
class Rows:
    """The rows of a split. `where` names them in errors.

    `classes` are the names of the label column's classes, in order, where the data says so itself; the
    table's labels are then these names.
    """

    table: datasets.Dataset
    where: str
    classes: tuple[str, ...] | None = None


def read_rows(dataset: Dataset, *, sources: Mapping[str, Source]) -> dict[str, Rows]:
    """`train`, and `eval` where the job has one. `sources` are the files that `files.find_sources` found.

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
            name: Rows(table=_read_files(source, dataset.columns), where=source.field)
            for name, source in sources.items()
        }
    return {name: _checked(split, columns=dataset.columns) for name, split in rows.items()}


def find_classes(rows: Mapping[str, Rows], *, column: str) -> Labels:
    """The classes of the training rows.

    Raises BadDataError where labels are unusable or new in the other rows.
    """
    train = rows["train"]
    labels = (
        Labels(train.classes) if train.classes else find_labels(train.table.unique(column), where=train.where)
    )
    if "eval" in rows:
        labels.check(rows["eval"].table.unique(column), where=rows["eval"].where)
    return labels


def _read_files(source: Source, columns: Columns) -> datasets.Dataset:
    """All files of a split, in their order."""
    import datasets

    wanted = _wanted(columns)
    try:
        if source.format == "csv":
            return datasets.Dataset.from_generator(
                csv_rows,
                features=datasets.Features({column: datasets.Value("string") for column in wanted}),
                # Tuples, as lists would be shards to datasets. The stamps are there for its cache alone: a
                # file that changed is read again.
                gen_kwargs={"source": source, "columns": tuple(wanted), "stamps": _stamps(source)},
            )
        parquet = source.format == "parquet"
        options: dict[str, Any] = {"columns": wanted} if parquet else {}
        files = {"train": _with_rows(source) if parquet else list(source.paths)}
        return datasets.load_dataset(source.format, data_files=files, split="train", **options)
    except BadDataError:
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


def csv_rows(source: Source, columns: Sequence[str], stamps: object) -> Iterator[dict[str, str]]:
    """The wanted columns of CSV files, as text throughout.

    Guessing types, as readers of CSV like to, would turn the text "null" into nothing and differ by shard.
    A row with too many fields (a comma in a text without quotes) must be an error, not a shorter text.
    """
    csv.field_size_limit(sys.maxsize)
    for path in source.paths:
        with open_text(path) as file:
            reader = csv.reader(file, delimiter=source.separator, strict=True)
            header = next(reader)
            places = {column: header.index(column) for column in columns}
            for fields in reader:
                if fields and len(fields) != len(header):
                    raise BadDataError(
                        source.field,
                        cause=f"line {reader.line_num} of {path} has {len(fields)} fields, not {len(header)}",
                        remedy="Put texts that contain the separator in double quotes",
                    )
                if fields:
                    yield {column: fields[place] for column, place in places.items()}


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


def _stamps(source: Source) -> tuple[tuple[int, int], ...]:
    stats = [os.stat(path) for path in source.paths]
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


def _checked(rows: Rows, *, columns: Columns) -> Rows:
    table = rows.table
    if len(table) == 0:
        raise BadDataError(rows.where, cause="there are no rows", remedy="Give it rows")
    check_columns(columns, found=table.column_names, where=rows.where)
    table = table.select_columns(_wanted(columns))
    for field, column in columns.named().items():
        if column != columns.label:
            _check_text(table, field=field, column=column, where=rows.where)
        else:
            _check_label(table, field=field, column=column, where=rows.where)
    classes = getattr(table.features[columns.label], "names", None)
    if not classes:
        return Rows(table=table, where=rows.where)
    # A negative class number is how the Hub marks rows without a label.
    names = [
        classes[number] if number is not None and number >= 0 else None for number in table[columns.label]
    ]
    table = table.remove_columns(columns.label).add_column(columns.label, names)
    return Rows(table=table, where=rows.where, classes=tuple(classes))


def _check_text(table: datasets.Dataset, *, field: str, column: str, where: str) -> None:
    kind = str(getattr(table.features[column], "dtype", table.features[column]))
    missing = table.data.column(column).null_count
    if kind not in ("string", "large_string") and missing < len(table):
        raise BadDataError(
            field,
            cause=f"{column!r} of {where} holds {kind}, not text",
            remedy="Name a column of text, or convert it",
        )
    if missing:
        raise BadDataError(
            field,
            cause=f"{missing} of {len(table)} rows of {where} have no text in {column!r}",
            remedy="Fill these rows or remove them",
        )


def _check_label(table: datasets.Dataset, *, field: str, column: str, where: str) -> None:
    """Lists, objects and mixtures of types have no classes; what a plain value is worth, labels.py says."""
    import datasets

    kind = table.features[column]
    if not isinstance(kind, datasets.Value | datasets.ClassLabel):
        raise BadDataError(
            field,
            cause=f"{column!r} of {where} holds {kind}, not one label a row",
            remedy="Write all labels as strings, or all as whole numbers",
        )


def _wanted(columns: Columns) -> list[str]:
    return list(dict.fromkeys(columns.named().values()))
