"""Reading JSON that anyone may have sent: every field is checked, every size is bounded.

The gang's port has no authentication (the NetworkPolicy is the fence), so a message is trusted in nothing.
All that can be wrong with one ends in MessageError, which the server answers with 400.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn, Optional

MAX_MESSAGE_BYTES = 16384
MAX_ROUND = 1_000_000_000
MAX_WORKERS = 512


class MessageError(Exception):
    """A message that is not what the protocol allows; the text names the field."""


def decode(payload: bytes) -> Fields:
    """The JSON object in `payload`. Raises MessageError on anything else, also on NaN and on deep nesting."""
    if len(payload) > MAX_MESSAGE_BYTES:
        raise MessageError(f"message of {len(payload)} bytes, more than {MAX_MESSAGE_BYTES}")
    try:
        document = json.loads(payload.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"not JSON: {str(error)[:200]}") from None
    return Fields(document, name="message")


def encode(document: Mapping[str, Any]) -> bytes:
    """Compact JSON in UTF-8; what UTF-8 cannot hold (lone surrogates) becomes `?`."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.encode("utf-8", "replace")


def _refuse_constant(name: str) -> NoReturn:
    raise MessageError(f"{name} is not a number")


class Fields:
    """One JSON object, read field by field. Every method raises MessageError that names the field."""

    def __init__(self, value: Any, *, name: str) -> None:
        if not isinstance(value, dict):
            raise MessageError(f"{name}: expected an object")
        self.raw: dict[str, Any] = value
        self._name = name

    def _fail(self, key: str, expected: str) -> NoReturn:
        raise MessageError(f"{self._name}.{key}: expected {expected}")

    def integer(self, key: str, *, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        value = self.raw.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self._fail(key, f"a whole number from {low} to {high}")
        return value

    def optional_integer(self, key: str, *, low: int, high: int) -> Optional[int]:
        """As `integer`; None where the field is null or absent."""
        return None if self.raw.get(key) is None else self.integer(key, low=low, high=high)

    def number(self, key: str) -> float:
        """A finite number."""
        value = self.raw.get(key)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not _is_finite(value):
            self._fail(key, "a finite number")
        return float(value)

    def text(self, key: str, *, limit: int, low: int = 0) -> str:
        """A string of `low` to `limit` characters that can be written as UTF-8."""
        value = self.raw.get(key)
        if not isinstance(value, str) or not low <= len(value) <= limit or not _is_encodable(value):
            self._fail(key, f"a text of {low} to {limit} characters")
        return value

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self.raw.get(key)
        if not isinstance(value, bool):
            self._fail(key, "true or false")
        return value

    def choice(self, key: str, *, options: frozenset[str]) -> str:
        """One of `options`."""
        value = self.raw.get(key)
        if not isinstance(value, str) or value not in options:
            self._fail(key, "one of " + ", ".join(sorted(options)))
        return value

    def child(self, key: str) -> Fields:
        """The object at `key`."""
        return Fields(self.raw.get(key), name=f"{self._name}.{key}")

    def optional_child(self, key: str) -> Optional[Fields]:
        """The object at `key`; None where it is null or absent."""
        return None if self.raw.get(key) is None else self.child(key)

    def children(self, key: str, *, limit: int) -> list[Fields]:
        """The objects of the list at `key`, at most `limit`."""
        value = self.raw.get(key)
        if not isinstance(value, list) or len(value) > limit:
            self._fail(key, f"a list of at most {limit}")
        return [Fields(item, name=f"{self._name}.{key}") for item in value]

    def integers(self, key: str, *, limit: int, high: int) -> tuple[int, ...]:
        """Whole numbers in [0, high], at most `limit` of them."""
        value = self.raw.get(key)
        known = isinstance(value, list) and len(value) <= limit
        if not known or not all(type(item) is int and 0 <= item <= high for item in value or ()):
            self._fail(key, f"a list of at most {limit} whole numbers from 0 to {high}")
        return tuple(value or ())

    def scalars(self, *, limit: int, text_limit: int) -> dict[str, Any]:
        """The object itself, if it has at most `limit` keys and plain, finite, short values."""
        if len(self.raw) > limit:
            raise MessageError(f"{self._name}: more than {limit} keys")
        for key, value in self.raw.items():
            if isinstance(value, str):
                self.text(key, limit=text_limit)
            elif value is not None and not isinstance(value, bool):
                self.number(key)
        return dict(self.raw)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value) and abs(value) < 1e300
    except OverflowError:
        return False


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
