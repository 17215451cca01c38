"""Finding data files: formats, globs, columns, and sentences for what is wrong."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from xeontrain_trainer.train.config import Columns, DataFiles, Dataset, TrainingConfig
from xeontrain_trainer.train.errors import BadConfigError, BadDataError, MissingFileError, UserError
from xeontrain_trainer.train.files import find_sources
from xeontrain_trainer.train.tasks import task_of

CSV = "text,label\nhello,ham\n"
JSON = '{"text": "hello", "label": "ham"}\n'


def columns_of(columns: Columns | None = None) -> dict[str, str]:
    """The columns that text classification reads."""
    dataset = Dataset(columns=columns or Columns())
    return task_of(TrainingConfig(task="text-classification", model="m", dataset=dataset)).columns()


def write_parquet(path: Path) -> None:
    pq.write_table(pa.table({"text": ["hello"], "label": ["ham"]}), path)


WRITERS: dict[str, Callable[[Path], object]] = {
    "a.csv": lambda path: path.write_text(CSV),
    "bom.csv": lambda path: path.write_text("\ufeff" + CSV, encoding="utf-8"),
    "a.tsv": lambda path: path.write_text(CSV.replace(",", "\t")),
    "a.jsonl": lambda path: path.write_text("\n" + JSON),
    "a.ndjson": lambda path: path.write_text(JSON),
    "A.JSON": lambda path: path.write_text(JSON),
    "a.parquet": write_parquet,
    "a.csv.gz": lambda path: path.write_bytes(gzip.compress(CSV.encode())),
    "a.jsonl.gz": lambda path: path.write_bytes(gzip.compress(JSON.encode())),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_is_found(tmp_path: Path, name: str) -> None:
    """Each format, also gzipped, is known by its name, and its columns are seen."""
    WRITERS[name](tmp_path / name)
    sources = find_sources(DataFiles(train=(str(tmp_path / name),)), columns=columns_of())
    assert sources["train"].paths == (str(tmp_path / name),)


def test_shards_are_ordered_and_counted_once(tmp_path: Path) -> None:
    """A glob's files come sorted, and a file that two patterns match is read once."""
    for number in (2, 0, 1):
        (tmp_path / f"train-{number}.csv").write_text(CSV)
    patterns = (f"{tmp_path}/train-*.csv", f"{tmp_path}/train-1.csv")
    sources = find_sources(DataFiles(train=patterns, eval=(f"{tmp_path}/train-0.csv",)), columns=columns_of())
    assert sources["train"].paths == tuple(f"{tmp_path}/train-{number}.csv" for number in range(3))
    assert sources["eval"].paths == (f"{tmp_path}/train-0.csv",)


Wrong = tuple[str, bytes, Columns, type[UserError], str, str]
WRONG: dict[str, Wrong] = {
    "no-column": (
        "a.csv",
        CSV.encode(),
        Columns(label="spam"),
        BadConfigError,
        "columns.label",
        "text, label",
    ),
    "no-pair": (
        "a.csv",
        CSV.encode(),
        Columns(text_pair="b"),
        BadConfigError,
        "columns.textPair",
        "no column 'b'",
    ),
    "unknown-format": ("a.xlsx", b"PK", Columns(), BadConfigError, "files.train", ".csv, .tsv"),
    "empty-csv": ("a.csv", b"", Columns(), BadDataError, "files.train", "it is empty"),
    "empty-json": ("a.jsonl", b"\n\n", Columns(), BadDataError, "files.train", "it is empty"),
    "json-array": ("a.json", b'[{"text": "a"}]', Columns(), BadDataError, "files.train", "one object a line"),
    "json-broken": ("a.jsonl", b"{text", Columns(), BadDataError, "files.train", "JSON lines"),
    "json-scalar": ("a.jsonl", b"1\n", Columns(), BadDataError, "files.train", "not a JSON object"),
    "not-utf-8": ("a.csv", "täxt,label\n".encode("latin-1"), Columns(), BadDataError, "files.train", "utf-8"),
    "not-gzip": ("a.csv.gz", CSV.encode(), Columns(), BadDataError, "files.train", "gzip"),
    "cut-gzip": (
        "a.csv.gz",
        gzip.compress(CSV.encode())[:14],
        Columns(),
        BadDataError,
        "files.train",
        "ended",
    ),
    "not-parquet": ("a.parquet", b"text,label", Columns(), BadDataError, "files.train", "as Parquet"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_named(tmp_path: Path, case: Wrong) -> None:
    """A file that cannot be used is the user's error: field, cause and remedy in one line."""
    name, content, columns, error, field, text = case
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error) as raised:
        find_sources(DataFiles(train=(str(tmp_path / name),)), columns=columns_of(columns))
    assert str(raised.value).startswith(f"spec.training.dataset.{field}")
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("pattern", "cause"),
    [
        ("train.csv", "there is no file"),
        ("*.csv", "no file matches"),
        ("deep/er/train.csv", "there is no file"),
    ],
)
def test_missing_files_say_what_is_there(tmp_path: Path, pattern: str, cause: str) -> None:
    """A wrong path names the list's entry and shows the nearest folder's content."""
    (tmp_path / "mail.jsonl").write_text(JSON)
    files = DataFiles(
        train=(f"{tmp_path}/mail.jsonl",), eval=(f"{tmp_path}/mail.jsonl", f"{tmp_path}/{pattern}")
    )
    with pytest.raises(MissingFileError) as raised:
        find_sources(files, columns=columns_of())
    assert raised.value.field == "spec.training.dataset.files.eval[1]"
    assert cause in raised.value.cause
    assert f"{tmp_path} holds mail.jsonl" in raised.value.remedy


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    """A folder given as a path gets the glob to write instead."""
    with pytest.raises(BadConfigError, match="Write a glob"):
        find_sources(DataFiles(train=(str(tmp_path),)), columns=columns_of())


def test_formats_do_not_mix(tmp_path: Path) -> None:
    """A split is of one format: types of columns would not agree otherwise."""
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": "a", "label": "b"}))
    with pytest.raises(BadConfigError, match="mixes formats"):
        find_sources(DataFiles(train=(f"{tmp_path}/*",)), columns=columns_of())


def test_brackets_in_a_file_s_name(tmp_path: Path) -> None:
    """A path that is there is that file, though a glob of the same letters would match another or none."""
    path = tmp_path / "a [1].csv"
    path.write_text("text,label\na,1\n")
    found = find_sources(DataFiles(train=(str(path),)), columns=columns_of())
    assert found["train"].paths == (str(path),)
