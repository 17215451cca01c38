"""Pieces of core Kubernetes inside a job, held against Kubernetes' own schemas.

The resource takes them as they are: their types would make it too large for an API server (see `PRESERVE`).
So `xeontrain validate` is the stricter here; the server's own answer comes once the operator makes the pods.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, Final

import referencing
import referencing.jsonschema

from xeontrain_operator.api.crd import Schema
from xeontrain_operator.api.paths import child_path, item_path
from xeontrain_operator.api.problem import Problem
from xeontrain_operator.api.schema_check import schema_problems

# By the field's path, [] for each item of a list: the type of core/v1.
PIECES: Final[Mapping[str, str]] = {
    "spec.volumes[]": "Volume",
    "spec.placement.affinity": "Affinity",
    "spec.podTemplate.securityContext": "PodSecurityContext",
    "spec.podTemplate.containerSecurityContext": "SecurityContext",
    "spec.podTemplate.containers[]": "Container",
}
_ID: Final = "urn:kubernetes"


def core_problems(document: Mapping[str, Any]) -> list[Problem]:
    """Return where a piece is not as Kubernetes has it: types, unknown fields, what is missing."""
    return [
        Problem(_below(path, problem.path), problem.message)
        for pattern, kind in PIECES.items()
        for path, piece in _pieces(document, pattern)
        for problem in [*_schema_problems(piece, kind=kind), *_source_problems(piece, kind=kind)]
    ]


def _schema_problems(piece: Mapping[str, Any], *, kind: str) -> list[Problem]:
    return schema_problems(piece, schema=_schema(kind), registry=_definitions())


def _source_problems(piece: Mapping[str, Any], *, kind: str) -> Iterator[Problem]:
    """No schema says that a volume comes from one place."""
    sources = [key for key, value in piece.items() if key != "name" and value is not None]
    if kind == "Volume" and len(sources) > 1:
        yield Problem("", f"has {len(sources)} sources ({', '.join(sources)}); write one, or one volume each")


def _pieces(document: Any, pattern: str) -> Iterator[tuple[str, Any]]:
    """Yield path and value of what is there; what is no mapping is a problem of the resource's own schema."""
    path, value = "", document
    for name in pattern.removesuffix("[]").split("."):
        value = value.get(name) if isinstance(value, dict) else None
        path = child_path(path, name)
    if not pattern.endswith("[]"):
        value, paths = [value], [path]
    else:
        value = value if isinstance(value, list) else []
        paths = [item_path(path, index) for index in range(len(value))]
    yield from ((where, piece) for where, piece in zip(paths, value, strict=True) if isinstance(piece, dict))


def _below(path: str, inner: str) -> str:
    return path + inner if inner.startswith("[") or not inner else f"{path}.{inner}"


def _schema(kind: str) -> Schema:
    return {"$ref": f"{_ID}#/$defs/io.k8s.api.core.v1.{kind}"}


@functools.cache
def _definitions() -> referencing.Registry[Schema]:
    """The newest definitions of the library that carries them, those that refuse unknown fields."""
    folder = resources.files("kubernetes_validate").joinpath("kubernetes-json-schema")
    strict = [entry for entry in folder.iterdir() if entry.name.endswith("-local-strict")]
    newest = max(strict, key=lambda entry: [int(number) for number in re.findall(r"\d+", entry.name)])
    text = newest.joinpath("_definitions.json").read_text(encoding="utf-8")
    content = {**json.loads(text), "$id": _ID}
    specification = referencing.jsonschema.DRAFT202012
    empty: referencing.Registry[Schema] = referencing.Registry()
    full: referencing.Registry[Schema] = empty.with_resource(_ID, specification.create_resource(content))
    return full
