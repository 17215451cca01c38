"""`xeontrain validate`: every rule of the resource, without an API server.

The rules themselves stand in the models and come here through the CRD, so what this module accepts is what
the API server accepts; only inside pieces of core Kubernetes is it the stricter.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from xeontrain_operator.api.cel_rules import ABSENT, cel_problems
from xeontrain_operator.api.core_pieces import core_problems
from xeontrain_operator.api.crd import Schema, structural_schema
from xeontrain_operator.api.defaulting import with_defaults
from xeontrain_operator.api.problem import Problem
from xeontrain_operator.api.schema_check import schema_problems
from xeontrain_operator.api.unknown_fields import unknown_fields
from xeontrain_operator.constants import API_VERSION, GROUP, KIND

# The API server adds five characters to generateName.
_GENERATED_SUFFIX: Final = "xxxxx"

_LABELS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
_TEXT: Final[Schema] = {"type": "string"}
# What a person may write in metadata, and what comes back from the API server.
_METADATA: Final[Schema] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 253},
        "generateName": _TEXT,
        "namespace": _TEXT,
        "labels": _LABELS,
        "annotations": _LABELS,
        "finalizers": {"type": "array", "items": _TEXT},
        "ownerReferences": {"type": "array", "items": {"type": "object"}},
        "managedFields": {"type": "array", "items": {"type": "object"}},
        "uid": _TEXT,
        "resourceVersion": _TEXT,
        "selfLink": _TEXT,
        "generation": {"type": "integer"},
        "creationTimestamp": _TEXT,
        "deletionTimestamp": _TEXT,
        "deletionGracePeriodSeconds": {"type": "integer"},
    },
}


def is_job(document: Any) -> bool:
    """Say whether a document claims to be of our group, or of our kind."""
    if not isinstance(document, Mapping):
        return False
    version = document.get("apiVersion")
    ours = isinstance(version, str) and version.split("/")[0] == GROUP
    return ours or document.get("kind") == KIND


def validate_job(document: Any, *, old: Any = None) -> list[Problem]:
    """Return all that is wrong with a job's document; empty: the API server would take it, and its pods.

    With `old`, the document that it replaces, the rules about changes are checked too.
    """
    if not isinstance(document, dict):
        return [Problem("", "is not a mapping; write apiVersion, kind, metadata and spec")]
    wrong_kind = _kind_problems(document)
    if wrong_kind:
        return wrong_kind
    schema = _schema()
    named = with_name(with_defaults(document, schema=schema))
    problems = list(unknown_fields(named, schema=schema, root=schema)) + _name_problems(named)
    problems += schema_problems(named, schema=schema) + core_problems(named)
    broken = [problem.path for problem in problems]
    before = ABSENT if old is None else with_name(with_defaults(old, schema=schema))
    problems += cel_problems(named, schema=schema, broken=broken, old=before)
    return sorted(set(problems))


@functools.cache
def _schema() -> Schema:
    schema = structural_schema()
    return {**schema, "properties": {**schema["properties"], "metadata": _METADATA}}


def _kind_problems(document: dict[str, Any]) -> list[Problem]:
    problems = []
    for field, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        found = document.get(field)
        if found != wanted:
            state = "is missing" if found is None else f"is {found}"
            problems.append(Problem(field, f"{state}; write {wanted}"))
    return problems


def with_name(document: dict[str, Any]) -> dict[str, Any]:
    """Give a document with generateName the name that it would get, so that the rules see one."""
    metadata = document.get("metadata")
    if (
        not isinstance(metadata, dict)
        or "name" in metadata
        or not isinstance(metadata.get("generateName"), str)
    ):
        return document
    return {**document, "metadata": {**metadata, "name": metadata["generateName"] + _GENERATED_SUFFIX}}


def _name_problems(document: dict[str, Any]) -> list[Problem]:
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and "name" in metadata:
        return []
    return [Problem("metadata.name", "is missing; write a name")]
