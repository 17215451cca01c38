"""Rows as the data has them: the same table from every format, and errors for what cannot be learned from."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from xeontrain_trainer.train.checks import find_classes
from xeontrain_trainer.train.config import Columns, DataFiles, Dataset, TrainingConfig
from xeontrain_trainer.train.errors import BadConfigError, BadDataError, UserError
from xeontrain_trainer.train.files import find_sources
from xeontrain_trainer.train.rows import Rows, read_rows
from xeontrain_trainer.train.tasks import task_of

from tests.unit.trainer.train import tiny

TEXTS = ["null", "NA", "12", "", 'a "quoted", text', "two\nlines", "ümlaut"]
LABELS = ["1", "0", "1", "0", "1", "0", "1"]


def read(*patterns: str, columns: Columns | None = None, evaluate: tuple[str, ...] = ()) -> dict[str, Rows]:
    files = DataFiles(train=patterns, eval=evaluate)
    dataset = Dataset(files=files, columns=columns or Columns())
    task = task_of(TrainingConfig(task="text-classification", model="m", dataset=dataset))
    return read_rows(dataset, task=task, sources=find_sources(files, columns=task.columns()))


def classes_of(rows: dict[str, Rows]) -> tuple[str, ...]:
    return find_classes(rows, field="spec.training.dataset.columns.label", column="label")


def write(path: Path, name: str, rows: list[tuple[Any, Any]]) -> str:
    target = path / name
    lines = "".join(json.dumps({"label": label, "text": text, "more": 1}) + "\n" for text, label in rows)
    if name.endswith((".csv", ".csv.gz")):
        tiny.write_csv(
            path / "plain.csv", [(label, text, 1) for text, label in rows], header=("label", "text", "more")
        )
        content = (path / "plain.csv").read_bytes()
        (path / "plain.csv").unlink()
    elif name.endswith((".jsonl", ".jsonl.gz")):
        content = lines.encode()
    else:
        texts, labels = [row[0] for row in rows], [row[1] for row in rows]
        pq.write_table(pa.table({"label": labels, "text": texts, "more": [1] * len(rows)}), target)
        content = target.read_bytes()
    target.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return str(target)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.jsonl.gz", "a.parquet", "a.parquet.gz"])
def test_texts_arrive_unchanged(tmp_path: Path, name: str) -> None:
    """Texts that look like nothing, numbers or several lines are texts, in every format; other columns go."""
    path = write(tmp_path, name, list(zip(TEXTS, LABELS, strict=True)))
    rows = read(path)
    assert rows["train"].table["text"][:] == TEXTS
    assert rows["train"].table["label"][:] == LABELS
    assert sorted(rows["train"].table.column_names) == ["label", "text"]
    assert classes_of(rows) == ("0", "1")


def test_shards_follow_one_another(tmp_path: Path) -> None:
    """Rows are numbered through the shards in order, though one shard's labels look like another type."""
    write(tmp_path, "t-0.csv.gz", [("a", "1"), ("b", "2")])
    write(tmp_path, "t-1.csv.gz", [("c", "x"), ("d", "y")])
    rows = read(f"{tmp_path}/t-*.csv.gz")
    assert rows["train"].table["text"][:] == ["a", "b", "c", "d"]
    assert classes_of(rows) == ("1", "2", "x", "y")


def test_numbers_and_their_texts_are_one_label(tmp_path: Path) -> None:
    """Training rows in Parquet with numbers and evaluation rows in CSV with digits name the same classes."""
    train = write(tmp_path, "train.parquet", [("a", 1), ("b", 0)])
    evaluate = write(tmp_path, "eval.csv", [("c", "0")])
    assert classes_of(read(train, evaluate=(evaluate,))) == ("0", "1")


def test_named_classes_keep_their_order(tmp_path: Path) -> None:
    """A column that brings the names of its classes (as datasets of the Hub do) keeps their order."""
    import datasets

    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["z", "a"])}
    )
    datasets.Dataset.from_dict({"text": ["x", "y"], "label": [1, 0]}, features=features).to_parquet(
        tmp_path / "a.parquet"
    )
    rows = read(f"{tmp_path}/a.parquet")
    assert rows["train"].table["label"][:] == ["a", "z"]
    assert classes_of(rows) == ("z", "a")


@pytest.mark.parametrize(
    ("name", "rows", "error", "text"),
    [
        ("a.csv", [], BadDataError, "no rows"),
        ("a.csv", [("a", "1"), ("b", "")], BadDataError, "rows without a label"),
        ("a.csv", [("a", "1"), ("b", "1")], BadDataError, "only the label '1'"),
        ("a.jsonl", [("a", "1"), (None, "0")], BadDataError, "1 of 2 rows of .* have no text in 'text'"),
        ("a.parquet", [], BadDataError, "no rows"),
        ("a.jsonl", [(1, "1"), (2, "0")], BadDataError, "holds int64, not text"),
        ("a.parquet", [("a", 0.5), ("b", 1.5)], BadDataError, "the label .*, a float"),
        ("a.jsonl", [("a", ["1"]), ("b", ["0"])], BadDataError, "holds List.*, not one label a row"),
        ("a.parquet", [("a", {"x": 1}), ("b", {"x": 2})], BadDataError, "holds .*, not one label a row"),
        ("a.jsonl", [("a", "x"), ("b", 1)], BadDataError, "label"),
    ],
    ids=[
        "no-rows",
        "no-label",
        "one-class",
        "no-text",
        "no-rows-parquet",
        "numbers-for-text",
        "fractions",
        "lists",
        "objects",
        "mixture",
    ],
)
def test_unusable_rows(
    tmp_path: Path, name: str, rows: list[tuple[Any, Any]], error: type[UserError], text: str
) -> None:
    """Rows that cannot be learned from are the user's error, with the field and the count."""
    path = write(tmp_path, name, rows)
    with pytest.raises(error, match=text) as raised:
        classes_of(read(path))
    assert raised.value.field.startswith("spec.training.dataset.")


@pytest.mark.parametrize("line", ["b, c,0", "b", "b,0,"], ids=["comma-in-text", "short", "trailing-comma"])
def test_ragged_csv_names_the_line(tmp_path: Path, line: str) -> None:
    """A comma in a text without quotes must not shorten the text in silence."""
    (tmp_path / "a.csv").write_text(f"text,label\na,1\n\n{line}\n")
    with pytest.raises(BadDataError, match=r"files\.train: line 4 of .*a\.csv has \d fields, not 2"):
        read(f"{tmp_path}/a.csv")


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.gz"])
@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda data: data[:-100], "the files cannot be read: EOFError"),
        (lambda data: data[:-200] + b"\xff" * 200, "spec.training.dataset.files.train"),
    ],
    ids=["cut", "damaged"],
)
def test_broken_gzip_is_bad_data(
    tmp_path: Path, name: str, damage: Callable[[bytes], bytes], error: str
) -> None:
    """A shard whose download was cut ends the job with a sentence, though its header was whole."""
    path = Path(write(tmp_path, name, [(str(number), str(number % 2)) for number in range(50000)]))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(BadDataError, match=error):
        read(str(path))


def test_shards_of_other_columns_are_refused(tmp_path: Path) -> None:
    """Each shard is looked at, not only the first."""
    write(tmp_path, "t-0.csv", [("a", "1"), ("b", "0")])
    (tmp_path / "t-1.csv").write_text("body,label\nc,1\n")
    with pytest.raises(BadConfigError, match=r"t-1\.csv has no column 'text'"):
        read(f"{tmp_path}/t-*.csv")
