"""Readers of the files that datasets has no reader for, or not one that takes rows as they are."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import BadConfigError, BadDataError
from .files import Source, open_text

if TYPE_CHECKING:
    import datasets

Row = dict[str, Any]


@dataclass(frozen=True)
class Reader:
    """How a format is read. Both functions are given the names of the columns that the task reads, in order.

    `rows(source, columns, stamps)` gives the rows of all files; `stamps` is for the cache of datasets alone.
    `features(columns)`: what they hold.
    """

    rows: Callable[[Source, Sequence[str], object], Iterator[Row]]
    features: Callable[[Sequence[str]], datasets.Features]


def csv_rows(source: Source, columns: Sequence[str], stamps: object) -> Iterator[Row]:
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


def conll_rows(source: Source, columns: Sequence[str], stamps: object) -> Iterator[Row]:
    """The sentences of CoNLL files: a word a line with its tags in columns, an empty line after a sentence.

    Columns are separated by tabs, or by spaces where a line has no tab; they have no names. The words are in
    the first and the tags in the last, or in those whose numbers from 0 `columns` gives for tokens and tags.
    Lines of `-DOCSTART-` and comments (`# ` where a sentence begins) are no words.
    """
    _check_places(columns)
    for path in source.paths:
        words: list[str] = []
        tags: list[str] = []
        with open_text(path) as file:
            for number, line in enumerate(file, start=1):
                text = line.rstrip("\r\n")
                if not text.strip() or text.startswith("-DOCSTART-"):
                    if words:
                        yield {columns[0]: words, columns[1]: tags}
                        words, tags = [], []
                elif words or not text.startswith("# "):
                    word, tag = _word_and_tag(text, columns, where=f"line {number} of {path}", source=source)
                    words.append(word)
                    tags.append(tag)
        if words:
            yield {columns[0]: words, columns[1]: tags}


def _check_places(columns: Sequence[str]) -> None:
    for name, default in zip(columns, ("tokens", "tags"), strict=True):
        if name != default and not name.isdecimal():
            raise BadConfigError(
                f"spec.training.dataset.columns.{default}",
                cause=f"CoNLL files have no column {name!r}, as their columns have no names",
                remedy="Write a column's number from 0, or leave the field out for the "
                + ("first" if default == "tokens" else "last"),
            )


def _word_and_tag(line: str, columns: Sequence[str], *, where: str, source: Source) -> tuple[str, str]:
    cells = line.split("\t") if "\t" in line else line.split()
    word, tag = (
        int(name) if name.isdecimal() else default for name, default in zip(columns, (0, -1), strict=True)
    )
    if len(cells) < 2 or max(word, tag) >= len(cells):
        raise BadDataError(
            source.field,
            cause=f"{where} has {len(cells)} columns, where a word and its tag are expected",
            remedy="Write a word and its tags in each line, separated by tabs; an empty line ends a sentence",
        )
    return cells[word], cells[tag]


def squad_rows(source: Source, columns: Sequence[str], stamps: object) -> Iterator[Row]:
    """The questions of files in the form of SQuAD itself. `columns`: question, context, answers."""
    question, context, answers = columns
    for path in source.paths:
        with open_text(path) as file:
            document = json.load(file)
        try:
            for paragraph in (item for article in document["data"] for item in article["paragraphs"]):
                for asked in paragraph["qas"]:
                    found = asked["answers"]
                    yield {
                        question: asked["question"],
                        context: paragraph["context"],
                        answers: {
                            "text": [answer["text"] for answer in found],
                            "answer_start": [answer["answer_start"] for answer in found],
                        },
                    }
        except (KeyError, TypeError) as error:
            raise BadDataError(
                source.field,
                cause=f"{path} is not in the form of SQuAD: {type(error).__name__}: {error}",
                remedy="Write data/paragraphs/qas as SQuAD does, or one question a line (JSON lines)",
            ) from None


def image_rows(source: Source, columns: Sequence[str], stamps: object) -> Iterator[Row]:
    """Image files, each of the class that its folder is named after. `columns`: image, label."""
    image, label = columns
    for path in source.paths:
        yield {image: os.path.abspath(path), label: os.path.basename(os.path.dirname(os.path.abspath(path)))}


def _texts(columns: Sequence[str]) -> datasets.Features:
    import datasets

    return datasets.Features({column: datasets.Value("string") for column in columns})


def _lists(columns: Sequence[str]) -> datasets.Features:
    import datasets

    return datasets.Features({column: datasets.List(datasets.Value("string")) for column in columns})


def _answers(columns: Sequence[str]) -> datasets.Features:
    import datasets

    *texts, answers = columns
    text, start = datasets.List(datasets.Value("string")), datasets.List(datasets.Value("int64"))
    return datasets.Features({**_texts(texts), answers: {"text": text, "answer_start": start}})


READERS: Mapping[str, Reader] = {
    "csv": Reader(csv_rows, _texts),
    "conll": Reader(conll_rows, _lists),
    "squad": Reader(squad_rows, _answers),
    "image": Reader(image_rows, _texts),
}
