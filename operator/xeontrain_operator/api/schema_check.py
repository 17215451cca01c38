"""Types, bounds and patterns: the CRD's own schema, run by a JSON schema library, with answers for people."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import jsonschema
import re2
import referencing

from xeontrain_operator.api.crd import Schema
from xeontrain_operator.api.paths import child_path, joined_path
from xeontrain_operator.api.problem import Problem
from xeontrain_operator.api.unknown_fields import advice

_NAMES: Final = {
    "integer": "a whole number",
    "number": "a number",
    "string": "a string",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
}


def schema_problems(
    value: Any, *, schema: Schema, registry: referencing.Registry[Schema] | None = None
) -> list[Problem]:
    """Return where the value, with defaults filled in, does not fit the schema.

    `registry` has the definitions that the schema refers to; a structural schema refers to none.
    """
    validator = _Validator(schema) if registry is None else _Validator(schema, registry=registry)
    errors = validator.iter_errors(value)
    return sorted({problem for error in errors for problem in _problems(error)})


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Schema) -> Iterator[Any]:
    # The API server's patterns are RE2; Python's own differ.
    if isinstance(instance, str) and not re2.search(pattern, instance):
        yield jsonschema.ValidationError(pattern)


def _list_type(_validator: Any, list_type: str, instance: Any, schema: Schema) -> Iterator[Any]:
    """Items of a map list differ in their keys, those of a set as a whole."""
    if not isinstance(instance, list) or list_type == "atomic":
        return
    keys = schema.get("x-kubernetes-list-map-keys", ())
    seen: set[str] = set()
    for index, item in enumerate(instance):
        identity = _identity(item, keys=keys)
        if identity in seen:
            yield jsonschema.ValidationError(identity, path=[index])
        seen.add(identity)


def _identity(item: Any, *, keys: Any) -> str:
    if keys and isinstance(item, dict):
        return ", ".join(f"{key} {json.dumps(item.get(key), sort_keys=True)}" for key in keys)
    return json.dumps(item, sort_keys=True)


# OpenAPI 3.0's boolean exclusiveMinimum is that of draft 4.
_Validator: Final = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft4Validator, {"pattern": _pattern, "x-kubernetes-list-type": _list_type}
)


def _problems(error: Any) -> Iterator[Problem]:
    path = joined_path(error.absolute_path)
    if error.validator == "required":
        for name in error.validator_value:
            if name not in error.instance:
                yield Problem(child_path(path, name), "is missing; add it")
        return
    if error.validator == "additionalProperties":
        known = list(error.schema["properties"])
        for name in error.instance.keys() - set(known):
            yield Problem(child_path(path, name), advice(name, known=known))
        return
    yield Problem(path, _MESSAGES.get(str(error.validator), _other)(error))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def _wrong_type(error: Any) -> str:
    # Kubernetes' own schemas allow null wherever a field may be left out.
    wanted = error.validator_value[0] if isinstance(error.validator_value, list) else error.validator_value
    in_quotes = wanted == "string" and not isinstance(error.instance, dict | list)
    return f"is {_shown(error.instance)}; write {_NAMES[wanted]}{' in quotes' if in_quotes else ''}"


def _no_member(error: Any) -> str:
    # The one union that a structural schema may have; that of Kubernetes' own schemas is the same.
    value = error.instance
    if isinstance(value, float) and error.absolute_path and error.absolute_path[-1] == "cpu":
        return f'is {value}; write whole CPUs, such as 8, or "{round(value * 1000)}m" with pinning: Disabled'
    return f"is {_shown(value)}; write a whole number, or a string in quotes"


def _not_listed(error: Any) -> str:
    allowed = [str(value) for value in error.validator_value]
    by_lower = {value.lower(): value for value in allowed}
    near = difflib.get_close_matches(str(error.instance).lower(), by_lower, n=1, cutoff=0.7)
    if not near:
        return f"is {_shown(error.instance)}; write one of {', '.join(allowed)}"
    best = by_lower[near[0]]
    others = [value for value in allowed if value != best]
    return f"is {_shown(error.instance)}; write {best}" + (f" (or {', '.join(others)})" if others else "")


def _too_small(error: Any) -> str:
    words = "a number above" if error.schema.get("exclusiveMinimum") else "at least"
    return f"is {error.instance}; write {words} {error.validator_value}"


def _too_large(error: Any) -> str:
    words = "a number below" if error.schema.get("exclusiveMaximum") else "at most"
    return f"is {error.instance}; write {words} {error.validator_value}"


def _other(error: Any) -> str:
    return str(error.message)


_MESSAGES: Final[dict[str, Callable[[Any], str]]] = {
    "type": _wrong_type,
    "anyOf": _no_member,
    "oneOf": _no_member,
    "enum": _not_listed,
    "minimum": _too_small,
    "maximum": _too_large,
    "minLength": lambda e: "is empty; fill it or remove the field" if e.validator_value == 1 else _other(e),
    "maxLength": lambda e: f"has {len(e.instance)} characters; write at most {e.validator_value}",
    "minItems": lambda e: f"has {len(e.instance)} items; write at least {e.validator_value}",
    "maxItems": lambda e: f"has {len(e.instance)} items; write at most {e.validator_value}",
    "maxProperties": lambda e: f"has {len(e.instance)} entries; write at most {e.validator_value}",
    "pattern": lambda e: f"is {_shown(e.instance)}; write what matches {e.validator_value}",
    "x-kubernetes-list-type": lambda e: f"is there twice ({e.message}); remove one",
}
