"""The CRD is one that the API server takes, that people can read, and that says what the models say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from xeontrain_operator.api.crd import PRINTER_COLUMNS, crd, crd_yaml, structural_schema
from xeontrain_operator.api.defaulting import with_defaults
from xeontrain_operator.api.v1alpha1 import parse_job
from xeontrain_operator.api.v1alpha1.immutability import CHANGES

from tests.contract.cases.edits import TRAINING
from tests.unit.operator.api.structural import faults

SCHEMA = structural_schema()
OURS = {key: SCHEMA["properties"][key] for key in ("spec", "status")}


def _nodes(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from _nodes(child, f"{path}.{name}")
    if isinstance(node.get("items"), dict):
        yield from _nodes(node["items"], f"{path}[]")


def test_schema_is_structural_and_bounded() -> None:
    """The checker, which holds the API server's rules and our own on bounds, finds nothing."""
    found = [fault for key, node in OURS.items() for fault in faults(node, path=key)]
    assert found == []


@pytest.mark.parametrize(
    ("node", "fault"),
    [
        ({"type": "object", "$ref": "#/x"}, "$ref"),
        ({"type": "object", "properties": {"a": {}}}, "a type is missing"),
        ({"type": "string"}, "without maxLength"),
        ({"type": "integer", "minimum": 1}, "without bounds"),
        ({"type": "number", "exclusiveMinimum": 0}, "boolean"),
        ({"type": "array", "items": {"type": "boolean"}, "maxItems": 1}, "list type"),
        ({"type": "string", "maxLength": 5, "pattern": "a(?=b)"}, "not RE2"),
        ({"type": "string", "enum": ["a"], "default": "b"}, "not one of the enum"),
        ({"type": "object", "properties": {}, "additionalProperties": {"type": "boolean"}}, "exclude"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_checker_finds(node: dict[str, Any], fault: str) -> None:
    """The checker can fail."""
    assert any(fault in found for found in faults(node))


def test_every_field_is_described() -> None:
    """`kubectl explain` teaches: each field of ours has a sentence."""
    bare = [
        f"{path}.{name}"
        for key, root in OURS.items()
        for path, node in _nodes(root, key)
        for name, child in node.get("properties", {}).items()
        if not child.get("description", "").endswith((".", ")"))
    ]
    assert bare == []


def test_size() -> None:
    """Small enough for client-side apply's annotation, many times over."""
    assert len(crd_yaml().encode()) < 60_000


def test_yaml_is_the_document() -> None:
    """The text reads back as the document, and has no anchors."""
    assert yaml.safe_load(crd_yaml()) == crd()
    assert "&id" not in crd_yaml()


def _with_defaults_of_models(document: dict[str, Any]) -> dict[str, Any]:
    return _without_empties(parse_job(document).to_dict()["spec"])


def _without_empties(value: Any) -> Any:
    """Empty lists and maps are absent in documents."""
    if isinstance(value, dict):
        kept = {key: _without_empties(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in ({}, [])}
    return value


def test_defaults_are_those_of_the_models() -> None:
    """What the API server fills in is what the operator's models fill in."""
    document = {**TRAINING, "spec": {**TRAINING["spec"], "storage": {"size": "1Gi"}}}
    by_schema = with_defaults(document, schema=SCHEMA)
    assert _without_empties(by_schema["spec"]) == _with_defaults_of_models(document)


def test_every_field_of_spec_says_when_it_may_change() -> None:
    """A new field must be entered in the table of changes."""
    properties = SCHEMA["properties"]["spec"]["properties"]
    run_policy = properties["runPolicy"]["properties"]
    expected = {name for name in properties if name != "runPolicy"}
    assert set(CHANGES) == expected | {f"runPolicy.{name}" for name in run_policy}


def test_printer_columns_point_at_fields() -> None:
    """Each column's path is in the schema (those of metadata and conditions apart)."""
    for column in PRINTER_COLUMNS:
        parts = column["jsonPath"].strip(".").split(".")
        if parts[0] == "metadata" or "conditions" in column["jsonPath"]:
            continue
        node = SCHEMA
        for part in parts:
            node = node["properties"][part]
        assert node["type"] == column["type"], column


def test_models_are_frozen() -> None:
    """Nobody changes a job that was read."""
    job = parse_job(TRAINING)
    with pytest.raises(ValueError, match="frozen"):
        job.spec.workers = 3  # type: ignore[misc]
