"""The data of the examples: file name -> content, from examples/data/ and scikit-learn's digits.

What is not there as it is needed is derived by rule: dates, times and version numbers in mails are found by
patterns, questions are asked for what the patterns found.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[1] / "examples" / "data"
# Client-side apply keeps a copy of each object, base64 and all, in an annotation of at most 256 KiB.
LARGEST_SHARD_BYTES = 150_000

Files = dict[str, bytes]

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)[a-z]*"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_PATTERNS = {
    "DATE": rf"(?:{_DAY},? )?(?:{_MONTH} \d{{1,2}}\b(?:, \d{{4}})?|\d{{1,2}} {_MONTH} \d{{4}})"
    r"|\d{4}-\d\d-\d\d",
    "TIME": r"\d{1,2}:\d\d(?::\d\d)?(?: ?[AaPp][Mm]\b)?(?:[-+]\d\d:\d\d| [-+]\d{4}| [A-Z]{3}\b)?",
    "VERSION": r"\bv?\d+\.\d+(?:\.\d+)+(?:-\d+)?\b",
}
_ENTITY = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _PATTERNS.items()))
_WORD = re.compile(r"\w+(?:[.:+-]+\w+)*|[^\w\s]")
_SUBJECT = "What is the subject of the mail?"
_QUESTIONS = (("DATE", "On which day was it?"), ("TIME", "At what time was it?"))
_TRAIN_DIGITS = 1400


def mail_filter() -> Files:
    """All mails with their labels, as CSV."""
    return _shards("train") | _shards("eval")


def mail_dates() -> Files:
    """Mails with dates, times and version numbers, as CoNLL files: words and tags."""
    return {
        f"{split}.conll.gz": _gzip("\n".join(map(_as_conll, _mails_with_entities(split)[:count])))
        for split, count in (("train", 300), ("eval", 80))
    }


def mail_questions() -> Files:
    """Two questions for each mail, the second of which some do not answer, in the form of SQuAD 2."""
    return {
        f"{split}.jsonl.gz": _gzip(_as_lines(_asked(_mails_with_entities(split)[:count])))
        for split, count in (("train", 300), ("eval", 80))
    }


def mail_writer() -> Files:
    """The texts of wanted mails, as JSON lines."""
    return {
        f"{split}.jsonl.gz": _gzip(_as_lines({"text": text} for text in _wanted_mails(split)[:count]))
        for split, count in (("train", 400), ("eval", 80))
    }


def digits() -> Files:
    """Handwritten digits of 8 x 8 grey pixels, as Parquet with the bytes of PNG files."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    rows = [(_png(image), str(label)) for image, label in zip(images, labels, strict=True)]
    return {"train.parquet": _parquet(rows[:_TRAIN_DIGITS]), "eval.parquet": _parquet(rows[_TRAIN_DIGITS:])}


def same(one: bytes, other: bytes, *, name: str) -> bool:
    """Whether two contents of the file say the same: compressed bytes may differ where the library does."""
    return one == other or _plain(one, name=name) == _plain(other, name=name)


def _plain(content: bytes, *, name: str) -> object:
    if name.endswith(".gz"):
        return gzip.decompress(content)
    if name.endswith(".parquet"):
        import pyarrow.parquet

        return pyarrow.parquet.read_table(io.BytesIO(content)).to_pylist()
    return content


def _rows(split: str) -> tuple[list[str], list[list[str]]]:
    with (DATA / f"mail-{split}.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return header, rows


def _wanted_mails(split: str) -> list[str]:
    return [text for text, label in _rows(split)[1] if label == "ham"]


def _mails_with_entities(split: str) -> list[str]:
    return [text for text in _wanted_mails(split) if _ENTITY.search(text)]


def _shards(split: str) -> Files:
    """The rows as gzipped CSV files of at most LARGEST_SHARD_BYTES, each with the header.

    As few as that needs, of about equal numbers of rows.
    """
    header, rows = _rows(split)
    for count in range(1, len(rows) + 1):
        bounds = [len(rows) * index // count for index in range(count + 1)]
        pieces = [_csv([header, *rows[bounds[index] : bounds[index + 1]]]) for index in range(count)]
        if max(map(len, pieces)) <= LARGEST_SHARD_BYTES:
            return {f"{split}-{index}.csv.gz": piece for index, piece in enumerate(pieces)}
    raise ValueError(f"a row of mail-{split}.csv alone is larger than {LARGEST_SHARD_BYTES} bytes")


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return _gzip(text.getvalue())


def _gzip(text: str) -> bytes:
    """Without name or time, so that the same text gives the same bytes."""
    return gzip.compress(text.encode(), mtime=0)


def _as_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _as_conll(text: str) -> str:
    """A word and its tag a line: B- where an entity begins, I- where it goes on, O outside."""
    entities = list(_ENTITY.finditer(text))
    lines = []
    for word in _WORD.finditer(text):
        within = next(
            (found for found in entities if found.start() < word.end() and word.start() < found.end()), None
        )
        place = "B" if within and word.start() <= within.start() else "I"
        lines.append(f"{word.group()}\t{f'{place}-{within.lastgroup}' if within else 'O'}\n")
    return "".join(lines)


def _asked(mails: Iterable[str]) -> Iterator[dict[str, Any]]:
    for number, text in enumerate(mails):
        yield _row(_SUBJECT, text, answer=(text.split(" . ")[0], 0))
        kind, question = _QUESTIONS[number % len(_QUESTIONS)]
        found = next((entity for entity in _ENTITY.finditer(text) if entity.lastgroup == kind), None)
        yield _row(question, text, answer=(found.group(), found.start()) if found else None)


def _row(question: str, context: str, *, answer: tuple[str, int] | None) -> dict[str, Any]:
    texts, starts = ([answer[0]], [answer[1]]) if answer else ([], [])
    return {"question": question, "context": context, "answers": {"text": texts, "answer_start": starts}}


def _png(pixels: Sequence[float]) -> bytes:
    """A PNG of 8 x 8 grey pixels, 16 being white; not compressed, which the Parquet file is."""
    values = bytes(min(255, int(value) * 16) for value in pixels)
    lines = b"".join(b"\0" + values[start : start + 8] for start in range(0, 64, 8))
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines, 0)),
        (b"IEND", b""),
    ]
    packed = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def _parquet(rows: Sequence[tuple[bytes, str]]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"image": [image for image, _ in rows], "label": [label for _, label in rows]})
    content = io.BytesIO()
    pyarrow.parquet.write_table(table, content, compression="zstd")
    return content.getvalue()
