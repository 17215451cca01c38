"""The CRD's CEL rules, run without an API server."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from typing import Any, Final

from xeontrain_operator.api.crd import VALIDATIONS, Schema
from xeontrain_operator.api.paths import child_path, item_path
from xeontrain_operator.api.problem import Problem

ABSENT: Final = object()
"""There is no value before the change."""


def cel_problems(
    value: Any, *, schema: Schema, broken: Collection[str] = (), old: Any = ABSENT, path: str = ""
) -> Iterator[Problem]:
    """Yield the rules that the value (defaults filled in) breaks.

    `old` is the value before a change; without it transition rules are passed over, as on creation. A rule is
    not run where something at or below its place is in `broken` (paths that the schema refused already): it
    could only fail for the same cause.
    """
    if not any(_within(other, path) for other in broken):
        yield from _own_problems(value, schema=schema, old=old, path=path)
    if isinstance(value, dict):
        for key, item in value.items():
            child = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
            if child:
                yield from cel_problems(
                    item, schema=child, broken=broken, old=_old_child(old, key), path=child_path(path, key)
                )
    elif isinstance(value, list) and "items" in schema:
        # Our transition rules all stand on `spec`, so items have no counterpart before the change.
        for index, item in enumerate(value):
            yield from cel_problems(item, schema=schema["items"], broken=broken, path=item_path(path, index))


def _own_problems(value: Any, *, schema: Schema, old: Any, path: str) -> Iterator[Problem]:
    for entry in schema.get(VALIDATIONS, ()):
        rule: str = entry["rule"]
        if "oldSelf" in rule and old is ABSENT:
            continue
        variables = {"self": value} if old is ABSENT else {"self": value, "oldSelf": old}
        try:
            holds = _program(rule).execute(variables) is True
            message = entry["message"]
        except (ValueError, RuntimeError, TypeError, KeyError, ArithmeticError) as error:
            holds, message = False, f"the rule {rule} cannot be evaluated: {error}"
        if not holds:
            place = entry.get("fieldPath", "")
            yield Problem((path + place).lstrip("."), message)


@functools.cache
def _program(rule: str) -> Any:
    # Imported late: it brings a terminal toolkit along, which half of the commands would load for nothing.
    import cel

    return cel.compile(rule)


def _old_child(old: Any, key: str) -> Any:
    return old.get(key, ABSENT) if isinstance(old, dict) else ABSENT


def _within(path: str, parent: str) -> bool:
    return path == parent or not parent or path.startswith((parent + ".", parent + "["))
