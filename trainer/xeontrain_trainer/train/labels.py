"""Labels as users write them, and the class numbers that the model learns. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .errors import BadDataError

_SHOWN_LABELS = 10
_LONGEST_NUMBER = 100


@dataclass(frozen=True)
class Labels:
    """The classes: `names[i]` is class i."""

    names: tuple[str, ...]

    def numbers(self) -> dict[str, int]:
        """Name -> class number."""
        return {name: number for number, name in enumerate(self.names)}

    def check(self, values: Iterable[Any], *, field: str, where: str) -> None:
        """Raise BadDataError where `values`, of the evaluation rows, hold a label never trained on."""
        found = {label_name(value, field=field, where=where) for value in values}
        unknown = sorted(found - set(self.names))
        if unknown:
            raise BadDataError(
                field,
                cause=f"{where} has labels that the training rows lack: {_shown(unknown)}",
                remedy=f"Remove them or add training rows with them; training knows {_shown(self.names)}",
            )


def find_labels(values: Iterable[Any], *, field: str, where: str) -> Labels:
    """The classes of the distinct label values of the training rows, in order: numbers by size, else by name.

    A CSV file has only strings, so strings that are all whole numbers count as numbers.
    Raises BadDataError for a missing label, a fraction, or fewer than two classes.
    """
    names = {label_name(value, field=field, where=where) for value in values}
    ordered = sorted(names, key=int) if all(map(_is_whole_number, names)) else sorted(names)
    if len(ordered) < 2:
        raise BadDataError(
            field,
            cause=f"{where} has only the label {_shown(ordered)}" if ordered else f"{where} has no rows",
            remedy="Give rows of at least two classes",
        )
    return Labels(names=tuple(ordered))


def label_name(value: Any, *, field: str, where: str) -> str:
    """The name of the class that a cell names. Raises BadDataError where it names none."""
    if value is None or value == "":
        raise BadDataError(
            field, cause=f"{where} has rows without a label", remedy="Label them or remove them"
        )
    if isinstance(value, (str, int)):
        return str(value)
    raise BadDataError(
        field,
        cause=f"{where} has the label {value!r}, a {type(value).__name__}",
        remedy="Write labels as strings or whole numbers",
    )


def _is_whole_number(text: str) -> bool:
    """Longer ones, which are no class numbers, stay texts: Python refuses to read any number of digits."""
    return len(text) <= _LONGEST_NUMBER and text.removeprefix("-").isdecimal()


def _shown(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(map(repr, listed[:_SHOWN_LABELS])) + (", ..." if len(listed) > _SHOWN_LABELS else "")
