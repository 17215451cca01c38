"""YAML as kubectl reads it.

kubectl's reader is YAML 1.1 with exceptions: `yes` and `on` are true, `012` is ten, `1e-4` is a number, there
are no base-60 numbers, a date is a string, keys become strings, and what comes out passes through JSON, so
that `8.0` is the integer 8. PyYAML's own YAML 1.1 differs in all but the first two.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

_TRUE: Final = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE: Final = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_MERGE: Final = "tag:yaml.org,2002:merge"
_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO]?(?P<octal>[0-7]+)|(?P<decimal>0|[1-9][0-9]*))"
)
_INFINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
_BASES: Final = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
# JSON writes larger floats with an exponent, which the API server then keeps as floats.
_LARGEST_PLAIN_FLOAT: Final = 1e21
# Far more than any object that an API server takes.
_MOST_NODES: Final = 1_000_000
# No float is longer, even in binary digits; Python refuses to read decimal numbers of 4300 digits and more.
_MOST_DIGITS: Final = 1100


class DocumentError(ValueError):
    """Text that is no YAML; `line` counts from 1."""

    def __init__(self, message: str, *, line: int) -> None:
        self.line = line
        super().__init__(message)


@dataclass(frozen=True)
class Document:
    """One document of a file: its value as JSON would carry it, and the line it begins in (from 1)."""

    value: Any
    line: int


def read_documents(text: str) -> list[Document]:
    """Return the documents of a file that are not empty. Raises DocumentError."""
    try:
        return [document for document in _documents(_Loader(text)) if document.value is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise DocumentError(_sentence(error), line=mark.line + 1 if mark else 1) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise DocumentError(f"the character #x{error.character:04x} is not allowed", line=line) from None
    except RecursionError:
        raise DocumentError("the document is nested too deeply", line=1) from None


def _documents(loader: _Loader) -> Iterator[Document]:
    while loader.check_node():
        node = loader.get_node()
        assert node is not None  # check_node has said so
        if _written_out(node, sizes={}) > _MOST_NODES:
            raise _error("its aliases, written out, make it too large", node)
        document = Document(value=loader.construct_document(node), line=node.start_mark.line + 1)
        _check_json(document)
        yield document


def _written_out(node: yaml.Node, *, sizes: dict[yaml.Node, int]) -> int:
    """Count the nodes that are left of a node once each alias is replaced by what it stands for.

    A few lines of aliases of aliases can stand for more than fits in any memory. What holds itself is counted
    once; `_check_json` refuses it.
    """
    if node not in sizes:
        sizes[node] = 0
        sizes[node] = 1 + sum(_written_out(child, sizes=sizes) for child in _children(node))
    return sizes[node]


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _check_json(document: Document) -> None:
    """Refuse what has no form in JSON: a document that holds itself, and values of explicit tags."""
    try:
        json.dumps(document.value)
    except (ValueError, TypeError) as error:
        raise DocumentError(f"cannot be written as JSON: {error}", line=document.line) from None


def _sentence(error: yaml.MarkedYAMLError) -> str:
    parts = [part for part in (error.context, error.problem) if part]
    return ", ".join(parts)


class _Loader(yaml.SafeLoader):
    """PyYAML's parser with kubectl's reading of scalars and keys."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 -- the base class's own attribute

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        own = [key_node for key_node, _ in node.value if key_node.tag != _MERGE]
        self._refuse_twins(own)
        # What is merged in comes first, so that the mapping's own keys win.
        self.flatten_mapping(node)
        return {
            self._key(key_node): self.construct_object(value_node, deep=deep)
            for key_node, value_node in node.value
        }

    def _refuse_twins(self, key_nodes: list[yaml.Node]) -> None:
        seen: set[str] = set()
        for node in key_nodes:
            key = self._key(node)
            if key in seen:
                raise _error(f"the key {key} is there twice in one mapping", node)
            seen.add(key)

    def _key(self, node: yaml.Node) -> str:
        key = self.construct_object(node, deep=True)
        if isinstance(key, bool):
            return "true" if key else "false"
        if key is None or isinstance(key, list | dict):
            raise _error("a key is empty, a list or a mapping; keys are strings", node)
        return str(key)


def _construct_scalar(loader: _Loader, node: yaml.ScalarNode) -> Any:
    """A plain scalar is read by kubectl's rules, a quoted one is a string."""
    text = str(loader.construct_scalar(node))
    if _HALF_CHARACTER.search(text):
        raise _error("an escape such as \\ud800 is only half a character", node)
    if node.style is not None:
        return text
    try:
        return read_scalar(text)
    except ValueError as error:
        raise _error(str(error), node) from None


def read_scalar(text: str) -> Any:
    """Read a plain (unquoted) scalar as kubectl does. Raises ValueError for infinity and NaN."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INFINITE.fullmatch(text):
        raise ValueError(f"{text} is no number that JSON can carry")
    # Digits may be grouped by _, but a number never begins with one.
    plain = text.replace("_", "") if text[0] in "0123456789+-." else text
    if match := _INTEGER.fullmatch(plain):
        return _integer(match)
    if _FLOAT.fullmatch(plain):
        return as_json_number(float(plain))
    return text


def _integer(match: re.Match[str]) -> Any:
    base, digits = next((name, text) for name, text in match.groupdict().items() if name != "sign" and text)
    if len(digits) > _MOST_DIGITS:
        raise ValueError("the number is too large")
    value = int(digits, _BASES[base]) * (-1 if match["sign"] == "-" else 1)
    return value if -(2**63) <= value < 2**64 else as_json_number(_as_float(value))


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def as_json_number(value: float) -> int | float:
    """Return the number that is left of a float once it has been JSON: 8.0 is written 8."""
    if math.isinf(value):
        raise ValueError("the number is too large")
    return int(value) if value.is_integer() and abs(value) < _LARGEST_PLAIN_FLOAT else value


def _error(message: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, message, node.start_mark)


_Loader.yaml_implicit_resolvers = {"<": [(_MERGE, re.compile(r"^(?:<<)$"))]}
_Loader.add_constructor("tag:yaml.org,2002:str", _construct_scalar)
