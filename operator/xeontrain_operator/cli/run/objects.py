"""ConfigMaps and Secrets that stand in the job's own file, as the bytes that a pod would see."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any

from xeontrain_operator.cli.files import InputError

Content = dict[str, bytes]
"""Key -> content."""


class Objects:
    """Look-up of the ConfigMaps and Secrets of one file."""

    def __init__(self, documents: Iterable[Any], *, source: str) -> None:
        self._source = source
        self._found: dict[tuple[str, str], dict[str, Any]] = {}
        for document in documents:
            if isinstance(document, dict) and document.get("kind") in ("ConfigMap", "Secret"):
                metadata = document.get("metadata")
                name = metadata.get("name", "") if isinstance(metadata, dict) else ""
                self._found[document["kind"], str(name)] = document

    def content(self, kind: str, *, name: str, optional: bool = False, field: str) -> Content | None:
        """Return the object's keys; None where it is missing and may be. `field` is who asks, with its
        file. Raises InputError."""
        document = self._found.get((kind, name))
        if document is not None:
            return _content(document, source=f"{self._source}: {kind} {name}")
        if optional:
            return None
        raise InputError(
            f"{field}: {kind} {name} is not in the file, and there is no cluster to ask: add it to the file"
        )

    def key(self, kind: str, *, name: str, key: str, optional: bool = False, field: str) -> bytes | None:
        """Return one key's content; None where object or key is missing and may be. Raises InputError."""
        content = self.content(kind, name=name, optional=optional, field=field)
        if content is None or (key not in content and optional):
            return None
        if key not in content:
            raise InputError(f"{field}: {kind} {name} has no key {key}; it has {_list(content)}")
        return content[key]


def _list(content: Content) -> str:
    return ", ".join(sorted(content)) or "none"


def _content(document: dict[str, Any], *, source: str) -> Content:
    texts, encoded = ("stringData", "data") if document["kind"] == "Secret" else ("data", "binaryData")
    result = {
        key: _decoded(value, source=f"{source}: {encoded}.{key}")
        for key, value in _items(document, encoded, source=source)
    }
    return result | {
        key: _text(value, source=f"{source}: {texts}.{key}")
        for key, value in _items(document, texts, source=source)
    }


def _items(document: dict[str, Any], field: str, *, source: str) -> list[tuple[str, Any]]:
    found = document.get(field) or {}
    if not isinstance(found, dict):
        raise InputError(f"{source}: {field}: is no mapping; write key: value")
    return list(found.items())


def _text(value: Any, *, source: str) -> bytes:
    if not isinstance(value, str):
        raise InputError(f"{source}: is no string; write it in quotes")
    return value.encode()


def _decoded(value: Any, *, source: str) -> bytes:
    try:
        return base64.b64decode("".join(_text(value, source=source).decode().split()), validate=True)
    except binascii.Error:
        raise InputError(f"{source}: is not base64") from None
