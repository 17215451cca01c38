"""Field paths as the API server writes them: spec.env[0].name, spec.podTemplate.labels[a/b]."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def child_path(path: str, key: str) -> str:
    """Return the path of a key below `path`; keys that are no identifiers stand in brackets."""
    if not _PLAIN.fullmatch(key):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def item_path(path: str, index: int) -> str:
    """Return the path of a list's item."""
    return f"{path}[{index}]"


def joined_path(parts: Iterable[str | int]) -> str:
    """Return the path of keys and indices, from the root."""
    path = ""
    for part in parts:
        path = item_path(path, part) if isinstance(part, int) else child_path(path, part)
    return path
