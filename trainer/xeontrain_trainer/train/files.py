"""Finding the data files and looking at their columns, in a fraction of a second and without a library.

This comes before anything slow is imported, so that a wrong path or column ends the job within seconds.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from .config import DataFiles
from .errors import BadConfigError, BadDataError, MissingFileError

TABLES: Mapping[str, str] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}
"""Suffix -> format of the files that have columns. A task may know more; see `Task.formats`."""

# Begins a file in the form in which SQuAD is published: one object around all articles.
_SQUAD = re.compile(r'\s*\{\s*"(version|data)"\s*:')
_SEPARATORS = {".tsv": "\t"}
_SHOWN_NAMES = 10


@dataclass(frozen=True)
class Source:
    """The files of one split, all of one format, in the order in which their rows are numbered.

    `field` is where the resource names them. `separator` is that of CSV. Of the formats csv, json and
    parquet a file has columns; of conll, squad and image a row has what its task reads, without names.
    """

    field: str
    paths: tuple[str, ...]
    format: str
    separator: str = ","


def find_sources(
    files: DataFiles, *, columns: Mapping[str, str], formats: Mapping[str, str] = TABLES
) -> dict[str, Source]:
    """`train`, and `eval` where the job has one, with every file found and every column seen in every file.

    `columns`: field of the resource -> column that the task reads. `formats`: suffix -> format it knows.
    Raises MissingFileError, BadDataError (not readable as its format) or BadConfigError (columns, formats).
    """
    sources = {}
    for split, patterns in (("train", files.train), ("eval", files.eval)):
        if patterns:
            sources[split] = _source(f"spec.training.dataset.files.{split}", patterns, formats=formats)
    for source in sources.values():
        for path in source.paths if source.format in _READERS else ():
            check_columns(columns, found=column_names(source, path), where=path)
    return sources


def check_columns(columns: Mapping[str, str], *, found: Sequence[str], where: str) -> None:
    """Raise BadConfigError for the first column that `where` does not have, naming those that it has."""
    for field, column in columns.items():
        if column not in found:
            names = ", ".join(found) if found else "no columns"
            raise BadConfigError(
                field, cause=f"{where} has no column {column!r}", remedy=f"Write one that it has: {names}"
            )


def column_names(source: Source, path: str) -> list[str]:
    """The names of the columns of one file. Raises BadDataError where it cannot be read as its format."""
    try:
        return _READERS[source.format](path, source.separator)
    except BadDataError:
        raise
    except (OSError, EOFError, ValueError, zlib.error, csv.Error) as error:
        raise _unreadable(source, path, cause=str(error)) from None


def _source(field: str, patterns: Sequence[str], *, formats: Mapping[str, str]) -> Source:
    paths = list(
        dict.fromkeys(
            path
            for index, text in enumerate(patterns)
            for path in _find(f"{field}[{index}]", text, formats=formats)
        )
    )
    kinds = {_suffix(field, path, formats=formats) for path in paths}
    found = {(formats[kind], _SEPARATORS.get(kind, ",")) for kind in kinds}
    if len(found) > 1:
        raise BadConfigError(
            field, cause=f"it mixes formats: {', '.join(sorted(kinds))}", remedy="Use one format for a split"
        )
    kind, separator = found.pop()
    if kind == "json or squad":
        kind = "squad" if all(map(_is_squad, paths)) else "json"
    return Source(field=field, paths=tuple(paths), format=kind, separator=separator)


def _is_squad(path: str) -> bool:
    try:
        with open_text(path) as file:
            return _SQUAD.match(file.read(1000)) is not None
    except (OSError, EOFError, ValueError, zlib.error):
        return False  # what is wrong with it, the reader of its format says


def _find(field: str, pattern: str, *, formats: Mapping[str, str]) -> list[str]:
    if os.path.isdir(pattern) and "image" in formats.values():
        return _images(field, pattern, formats=formats)
    # A file may itself have brackets in its name.
    is_glob = glob.has_magic(pattern) and not os.path.exists(pattern)
    paths = sorted(glob.glob(pattern, recursive=True)) if is_glob else [pattern]
    files = [path for path in paths if not os.path.isdir(path)]
    if paths and not files:
        raise BadConfigError(field, cause=f"{pattern} is a folder", remedy=f"Write a glob: {pattern}/*.csv")
    for path in files or [pattern]:
        if not os.path.exists(path):
            what = "no file matches" if glob.has_magic(path) else "there is no file"
            raise MissingFileError(field, cause=f"{what} {path}", remedy=_neighbours(path))
    return files


def _images(field: str, folder: str, *, formats: Mapping[str, str]) -> list[str]:
    """The images in the folders of `folder`, each folder a class; files that are no images do not count."""
    endings = tuple(suffix for suffix, kind in formats.items() if kind == "image")
    paths = sorted(glob.glob(os.path.join(glob.escape(folder), "*", "*")))
    images = [path for path in paths if path.lower().endswith(endings)]
    if not images:
        raise BadDataError(
            field,
            cause=f"the folders in {folder} hold no images",
            remedy=f"Put the images into one folder for each class, such as {folder}/cat/1.jpg",
        )
    return images


def _neighbours(path: str) -> str:
    """What is there instead: the nearest folder that exists, with its first names."""
    folder = os.path.dirname(path) or "."
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder) or "."
    names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    shown = ", ".join(names[:_SHOWN_NAMES]) + (", ..." if len(names) > _SHOWN_NAMES else "")
    return f"Check the path and spec.volumeMounts: {folder} holds {shown or 'nothing'}"


def _suffix(field: str, path: str, *, formats: Mapping[str, str]) -> str:
    name = path.lower().removesuffix(".gz")
    suffix = os.path.splitext(name)[1]
    if suffix not in formats:
        known = ", ".join(formats)
        raise BadConfigError(
            field, cause=f"{path} has no known format", remedy=f"Name files {known}, or these + .gz"
        )
    return suffix


def open_text(path: str) -> IO[str]:
    """A file of text, gzipped or not, in UTF-8 with or without a byte order mark, lines as they are."""
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="")


def open_bytes(path: str) -> IO[bytes]:
    """The plain content of a file, gzipped or not."""
    return gzip.open(path, "rb") if is_gzipped(path) else open(path, "rb")  # type: ignore[return-value]


def is_gzipped(path: str) -> bool:
    """Whether the file's name says that it is gzipped."""
    return path.lower().endswith(".gz")


def _csv_columns(path: str, separator: str) -> list[str]:
    with open_text(path) as file:
        header = next(csv.reader(file, delimiter=separator), None)
    if not header:
        raise ValueError("it is empty")
    return header


def _json_columns(path: str, separator: str) -> list[str]:
    with open_text(path) as file:
        first = next((line for line in map(str.strip, file) if line), None)
    if first is None:
        raise ValueError("it is empty")
    if first.startswith("["):
        raise ValueError("it is one JSON array, not JSON lines (one object a line)")
    row: Any = json.loads(first)
    if not isinstance(row, dict):
        raise ValueError("its first line is not a JSON object")
    return list(row)


def parquet_rows(path: str) -> int:
    """The number of rows of a Parquet file."""
    import pyarrow.parquet

    with open_bytes(path) as file:
        return int(pyarrow.parquet.read_metadata(file).num_rows)


def _parquet_columns(path: str, separator: str) -> list[str]:
    import pyarrow.parquet

    with open_bytes(path) as file:
        names: Iterable[str] = pyarrow.parquet.read_schema(file).names
    return list(names)


_READERS = {"csv": _csv_columns, "json": _json_columns, "parquet": _parquet_columns}


def _unreadable(source: Source, path: str, *, cause: str) -> BadDataError:
    kind = {"csv": "CSV", "json": "JSON lines", "parquet": "Parquet"}[source.format]
    return BadDataError(
        source.field,
        cause=f"{path} cannot be read as {kind}: {cause}",
        remedy="Write the file again in UTF-8 and in the format that its name says",
    )
