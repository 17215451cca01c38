"""YAML is read as kubectl reads it; the values beside the scalars are what kubectl 1.37 makes of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from xeontrain_operator.api.yaml_dialect import DocumentError, read_documents

from tests.contract.cases.scalars import DOCUMENTS, REFUSED, SCALARS

# Each line stands for ten times the one before.
BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30))
MERGE_BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n}\n  <<: [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)
)


@pytest.mark.parametrize(("text", "value"), SCALARS, ids=[text or "empty" for text, _ in SCALARS])
def test_scalar(text: str, value: Any) -> None:
    """The value, and its JSON type, are kubectl's."""
    (document,) = read_documents(f"a: {text}\n")
    assert json.dumps(document.value) == json.dumps({"a": value})


@pytest.mark.parametrize(("text", "value"), DOCUMENTS, ids=[text.split("\n")[0] for text, _ in DOCUMENTS])
def test_document(text: str, value: dict[str, Any]) -> None:
    """Anchors, merge keys and odd keys are kubectl's too."""
    (document,) = read_documents(text)
    assert value.items() <= document.value.items()


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    """What kubectl cannot read is no document here either."""
    with pytest.raises(DocumentError):
        read_documents(text)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("1: x", "1"),
        ("yes: x", "true"),
        ("y: x", "true"),
        ("'1': x", "1"),
        ("1.5: x", "1.5"),
    ],
)
def test_keys_are_strings(text: str, key: str) -> None:
    """JSON has no other keys."""
    assert read_documents(text)[0].value == {key: "x"}


def test_documents_and_lines() -> None:
    """Empty documents are passed over, and each knows its first line."""
    found = read_documents("---\na: 1\n---\n---\n# nothing\n---\nb: 2\n")
    assert [(document.value, document.line) for document in found] == [({"a": 1}, 2), ({"b": 2}, 7)]


def test_anchors_and_merge_keys() -> None:
    """Anchors work; a key of one's own wins over a merged one."""
    text = "base: &b {x: 1, z: 2}\nuse:\n  <<: *b\n  z: 3\n"
    assert read_documents(text)[0].value["use"] == {"x": 1, "z": 3}


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: [1,\nb: 2\n", 3, ""),
        ("a: 1\na: 2\n", 2, "twice"),
        ("a: 1\n\tb: 2\n", 2, ""),
        ("a: .inf\n", 1, "JSON"),
        ("a: !!python/object:os.system {}\n", 1, "could not determine a constructor"),
        ("ok: 1\n---\na: 1\nb: ]\n", 4, ""),
        ("? [a]\n: 1\n", 1, "keys are strings"),
        ("null: 1\n", 1, "keys are strings"),
        ("a: 1\x00\n", 1, ""),
        ("ok: 1\na: " + "9" * 400, 2, "too large"),
        ("ok: 1\na: -" + "9" * 5000, 2, "too large"),
        ("ok: 1\na: 0x" + "F" * 500, 2, "too large"),
        (BOMB, 1, "aliases"),
        (MERGE_BOMB, 1, "aliases"),
        ('ok: 1\na: "\\ud800"\n', 2, "character"),
    ],
    ids=[
        "flow",
        "twice",
        "tab",
        "infinity",
        "python-tag",
        "second-document",
        "list-as-key",
        "null-as-key",
        "nul",
        "integer-beyond-floats",
        "integer-of-too-many-digits",
        "hexadecimal-beyond-floats",
        "aliases-of-aliases",
        "merges-of-merges",
        "half-a-character",
    ],
)
def test_errors_name_the_line(text: str, line: int, says: str) -> None:
    """A person finds the place."""
    with pytest.raises(DocumentError) as caught:
        read_documents(text)
    assert caught.value.line == line
    assert says in str(caught.value)


def test_self_reference_is_refused() -> None:
    """A document that holds itself has no end as JSON."""
    with pytest.raises(DocumentError):
        read_documents("a: &a [*a]\n")
