"""What others say, made fit for a condition, an event and a terminal."""

from __future__ import annotations

import math
from typing import Final

QUOTE_LIMIT: Final = 500
"""Characters of somebody else's message that we repeat."""


def printable(text: str) -> str:
    """Without control characters and halves of characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def quote(said: object) -> str:
    """Another program's message, printable, on one line and bounded."""
    text = " ".join(printable(str(said)).split())
    return text if len(text) <= QUOTE_LIMIT else f"{text[: QUOTE_LIMIT - 3]}..."


def sentence(text: str) -> str:
    """With a full stop, where it has no end of its own."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def significant(value: float | None, *, digits: int) -> float | None:
    """A figure rounded to what a person would see change; None for what is no number."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def counted(number: int | float | str, noun: str) -> str:
    """A number with its noun: `1 CPU`, `2 CPUs`, `8.0 CPUs`."""
    return f"{number} {noun}" if str(number) == "1" else f"{number} {noun}s"
