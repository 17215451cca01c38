"""One thing that is wrong with a document."""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    """The field, as a path from the document's root, and what is wrong with it and what to write."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message
