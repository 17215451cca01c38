"""Fields that the resource does not have, each with the name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from xeontrain_operator.api.crd import PRESERVE_UNKNOWN, Schema
from xeontrain_operator.api.paths import child_path, item_path
from xeontrain_operator.api.problem import Problem


def unknown_fields(value: Any, *, schema: Schema, root: Schema, path: str = "") -> Iterator[Problem]:
    """Yield each field of the value that the schema does not know; `root` is searched for its right place."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_fields(
                item, schema=schema.get("items", {}), root=root, path=item_path(path, index)
            )
    elif isinstance(value, dict) and "properties" in schema:
        for key, item in value.items():
            child = schema["properties"].get(key)
            if child is not None:
                yield from unknown_fields(item, schema=child, root=root, path=child_path(path, key))
            elif not schema.get(PRESERVE_UNKNOWN):
                yield Problem(child_path(path, key), advice(key, known=list(schema["properties"]), root=root))


def advice(name: str, *, known: list[str], root: Schema | None = None) -> str:
    """Say what to write in place of a field that is not there; `root` is searched for its right place."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
    if near:
        return f"is not a field; write {by_lower[near[0]]}"
    homes = [home for home in _homes(name, schema=root or {}) if not home.startswith("status")]
    if homes:
        return f"is not a field here; it belongs in {' or '.join(homes[:3])}"
    return f"is not a field; the fields here are {', '.join(known)}"


def _homes(name: str, *, schema: Schema, path: str = "") -> Iterator[str]:
    """Yield the paths of the objects that have a field of that name."""
    properties: dict[str, Schema] = schema.get("properties", {})
    if name in properties and path:
        yield path
    for key, child in properties.items():
        yield from _homes(name, schema=child, path=child_path(path, key))
