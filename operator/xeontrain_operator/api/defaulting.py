"""What the API server does to a document before it judges it: nulls go, defaults come in."""

from __future__ import annotations

import copy
from typing import Any

from xeontrain_operator.api.crd import PRESERVE_UNKNOWN, Schema


def with_defaults(value: Any, *, schema: Schema) -> Any:
    """Return the value with all defaults of a structural schema filled in; the input is left as it is.

    A null counts as absent where the schema speaks of the field, and stays where it does not (inside
    pieces of core Kubernetes).
    """
    if isinstance(value, dict):
        return _object_with_defaults(value, schema=schema)
    if isinstance(value, list) and "items" in schema:
        return [with_defaults(item, schema=schema["items"]) for item in value]
    return copy.deepcopy(value)


def _object_with_defaults(value: dict[str, Any], *, schema: Schema) -> dict[str, Any]:
    properties: dict[str, Schema] = schema.get("properties", {})
    others: Schema = schema.get("additionalProperties") or {}
    speaks_of_all = not schema.get(PRESERVE_UNKNOWN)
    result: dict[str, Any] = {}
    for key, item in value.items():
        if item is None and (key in properties or others):
            continue
        known = key in properties or (others and speaks_of_all)
        result[key] = (
            with_defaults(item, schema=properties.get(key, others)) if known else copy.deepcopy(item)
        )
    for key, child in properties.items():
        if key not in result and "default" in child:
            result[key] = with_defaults(copy.deepcopy(child["default"]), schema=child)
    return result
