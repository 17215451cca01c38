"""CoNLL files and SQuAD's own form: rows as users have them, and a sentence for what is wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from xeontrain_trainer.train.config import Columns, DataFiles, Dataset, TrainingConfig
from xeontrain_trainer.train.errors import BadConfigError, BadDataError, UserError
from xeontrain_trainer.train.files import find_sources
from xeontrain_trainer.train.rows import read_rows
from xeontrain_trainer.train.tasks import task_of


def read(task: str, path: Path, *, columns: Columns | None = None) -> Any:
    """The rows of a file as the task reads them, column -> values."""
    files = DataFiles(train=(str(path),))
    dataset = Dataset(files=files, columns=columns or Columns())
    made = task_of(TrainingConfig(task=task, model="m", dataset=dataset))
    sources = find_sources(files, columns=made.columns(), formats=made.formats)
    return read_rows(dataset, task=made, sources=sources)["train"].table[:]


CONLL_2003 = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

German JJ B-NP B-MISC
"""
TWO_COLUMNS = "EU\tB-ORG\nrejects\tO\n\n\nGerman\tB-MISC"
WITH_SPACES = "New York\tB-ORG\nrejects\tO\r\n\r\nGerman\tB-MISC\r\n"
CONLL_U = """# sent_id = 1
# text = EU rejects
1\tEU\t_\tB-ORG\t_\tx
2\trejects\t_\tO\t_\ty

1\t#\t_\tB-MISC\t_\tz
# is no comment here\t_\t_\tO
"""


@pytest.mark.parametrize(
    ("name", "text", "columns", "words"),
    [
        ("a.conll", CONLL_2003, Columns(), [["EU", "rejects"], ["German"]]),
        ("a.txt", CONLL_2003, Columns(tags="3"), [["EU", "rejects"], ["German"]]),
        ("a.txt", TWO_COLUMNS, Columns(), [["EU", "rejects"], ["German"]]),
        ("a.conll", WITH_SPACES, Columns(), [["New York", "rejects"], ["German"]]),
        ("a.conll.gz", TWO_COLUMNS, Columns(), [["EU", "rejects"], ["German"]]),
    ],
    ids=["conll-2003", "numbered", "two-columns", "spaces-in-words", "gzipped"],
)
def test_conll(tmp_path: Path, name: str, text: str, columns: Columns, words: list[list[str]]) -> None:
    """An empty line ends a sentence; words are in the first column, tags in the last or a numbered one."""
    content = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    rows = read("token-classification", tmp_path / name, columns=columns)
    assert rows[columns.tokens] == words
    assert rows[columns.tags] == [["B-ORG", "O"], ["B-MISC"]]


def test_conll_u(tmp_path: Path) -> None:
    """Columns by number, and comments where a sentence begins and only there."""
    (tmp_path / "a.conll").write_text(CONLL_U)
    rows = read("token-classification", tmp_path / "a.conll", columns=Columns(tokens="1", tags="3"))
    assert rows["1"] == [["EU", "rejects"], ["#", "_"]]
    assert rows["3"] == [["B-ORG", "O"], ["B-MISC", "O"]]


QUESTION = {"question": "Who?", "id": "1", "answers": [{"text": "EU", "answer_start": 0}]}
IMPOSSIBLE = {"question": "When?", "id": "2", "is_impossible": True, "answers": []}
SQUAD = {
    "version": "2.0",
    "data": [{"title": "t", "paragraphs": [{"context": "EU rejects", "qas": [QUESTION, IMPOSSIBLE]}]}],
}


@pytest.mark.parametrize("indent", [None, 2])
def test_squad(tmp_path: Path, indent: int | None) -> None:
    """SQuAD's own file, in one line or in many, has a row for each question."""
    (tmp_path / "a.json").write_text(json.dumps(SQUAD, indent=indent))
    rows = read("question-answering", tmp_path / "a.json")
    assert rows["question"] == ["Who?", "When?"]
    assert rows["context"] == ["EU rejects"] * 2
    assert rows["answers"] == [{"text": ["EU"], "answer_start": [0]}, {"text": [], "answer_start": []}]


def test_json_lines_stay_json_lines(tmp_path: Path) -> None:
    """A file whose name says JSON and whose lines are rows is read as rows."""
    row = {"question": "Who?", "context": "EU rejects", "answers": {"text": ["EU"], "answer_start": [0]}}
    (tmp_path / "a.json").write_text(json.dumps(row) + "\n")
    assert read("question-answering", tmp_path / "a.json")["question"] == ["Who?"]


@pytest.mark.parametrize(
    ("task", "name", "text", "columns", "error", "message"),
    [
        (
            "token-classification",
            "a.txt",
            "EU B-ORG\nrejects\n",
            {},
            BadDataError,
            r"line 2 of .* has 1 columns",
        ),
        (
            "token-classification",
            "a.txt",
            "a b c\n",
            {"tags": "3"},
            BadDataError,
            r"line 1 of .* has 3 col",
        ),
        (
            "token-classification",
            "a.txt",
            "a b\n",
            {"tags": "ner"},
            BadConfigError,
            r"columns\.tags: .*'ner'",
        ),
        ("token-classification", "a.txt", "\n\n", {}, BadDataError, "no rows"),
        ("text-classification", "a.txt", "a b\n", {}, BadConfigError, "no known format"),
        (
            "question-answering",
            "a.json",
            '{"data": [{"x": 1}]}',
            {},
            BadDataError,
            "not in the form of",
        ),
        ("question-answering", "a.json", '{"data": [', {}, BadDataError, "cannot be read"),
    ],
    ids=["one-column", "too-few", "named", "empty", "other-task", "no-squad", "cut"],
)
def test_what_is_wrong_is_named(
    tmp_path: Path,
    task: str,
    name: str,
    text: str,
    columns: dict[str, str],
    error: type[UserError],
    message: str,
) -> None:
    """Field, file and line of what cannot be used."""
    (tmp_path / name).write_text(text)
    with pytest.raises(error, match=message):
        read(task, tmp_path / name, columns=Columns(**columns))
