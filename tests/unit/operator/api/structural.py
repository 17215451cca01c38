"""A checker of structural schemas: what the API server would refuse, drop or estimate as too costly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import re2

Schema = dict[str, Any]

KNOWN_KEYS = {
    *("description", "type", "format", "enum", "default", "properties", "required", "items", "anyOf"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "pattern"),
    *("minItems", "maxItems", "maxProperties", "additionalProperties"),
    *("x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
    *("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"),
}
INT_OR_STRING_FORM = [{"type": "integer"}, {"type": "string"}]


def faults(node: Schema, *, path: str = "") -> Iterator[str]:
    """Yield what is wrong with a node and all below it, each with its path."""
    for check in (_keys, _types, _bounds, _lists, _defaults, _rules):
        yield from (f"{path or '.'}: {fault}" for fault in check(node))
    for name, child in node.get("properties", {}).items():
        yield from faults(child, path=f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from faults(node[key], path=f"{path}[]")


def _keys(node: Schema) -> Iterator[str]:
    for key in node.keys() - KNOWN_KEYS:
        yield f"the key {key} is not allowed in a structural schema"
    if "properties" in node and "additionalProperties" in node:
        yield "properties and additionalProperties exclude each other"


def _types(node: Schema) -> Iterator[str]:
    if node.get("x-kubernetes-int-or-string"):
        if "type" in node or node.get("anyOf") != INT_OR_STRING_FORM:
            yield "int-or-string has a form of its own"
    elif "type" not in node:
        yield "a type is missing"
    elif "anyOf" in node:
        yield "only int-or-string may have anyOf"
    for key in ("exclusiveMinimum", "exclusiveMaximum"):
        if not isinstance(node.get(key, True), bool):
            yield f"{key} is a boolean here"


def _bounds(node: Schema) -> Iterator[str]:
    kind = node.get("type")
    if kind == "string" and not node.keys() & {"maxLength", "enum"}:
        yield "a string without maxLength"
    if kind == "integer" and not {"minimum", "maximum"} <= node.keys():
        yield "an integer without bounds"
    if kind == "array" and "maxItems" not in node:
        yield "a list without maxItems"
    if kind == "object" and "additionalProperties" in node and "maxProperties" not in node:
        yield "a map without maxProperties"
    if "pattern" in node:
        try:
            re2.compile(node["pattern"])
        except re2.error as error:
            yield f"the pattern is not RE2: {error}"


def _lists(node: Schema) -> Iterator[str]:
    if node.get("type") != "array":
        return
    if "items" not in node:
        yield "a list without items"
    if node.get("x-kubernetes-list-type") not in ("atomic", "set", "map"):
        yield "a list without a list type"
    items = node.get("items", {})
    for key in node.get("x-kubernetes-list-map-keys", ()):
        declared = items.get("properties", {}).get(key, {})
        if declared.get("type") not in ("string", "integer"):
            yield f"the map key {key} is not a declared scalar"
        if key not in items.get("required", ()) and "default" not in declared:
            yield f"the map key {key} is neither required nor defaulted"


def _defaults(node: Schema) -> Iterator[str]:
    for name, child in node.get("properties", {}).items():
        if "default" in child and name in node.get("required", ()):
            yield f"{name} is required and has a default"
    if "enum" in node and node.get("default", node["enum"][0]) not in node["enum"]:
        yield "the default is not one of the enum"


def _rules(node: Schema) -> Iterator[str]:
    for entry in node.get("x-kubernetes-validations", ()):
        if not entry.get("message") or "\n" in entry["message"]:
            yield f"the rule {entry['rule']} needs a message of one line"
