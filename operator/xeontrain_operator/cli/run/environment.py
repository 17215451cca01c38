"""The environment of a container, resolved as a kubelet would."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from xeontrain_operator.api.v1alpha1 import memory_bytes
from xeontrain_operator.cli.files import InputError
from xeontrain_operator.cli.run.objects import Objects

JsonDict = dict[str, Any]

_REFERENCE: Final = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_KEY_OF_A_FIELD: Final = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


def container_environment(
    container: JsonDict, *, fields: Mapping[str, str], objects: Objects, source: str
) -> dict[str, str]:
    """Return the variables of a container, `envFrom` first, then `env` with its references resolved.

    `fields` are the pod's own (`metadata.name`, `metadata.labels['...']`, `status.podIP`, ...). Raises
    InputError for what only a cluster can tell.
    """
    result: dict[str, str] = {}
    for index, entry in enumerate(container.get("envFrom", ())):
        result |= _all_keys(entry, objects=objects, field=f"{source}: spec.envFrom[{index}]")
    for entry in container["env"]:
        name = entry["name"]
        if "valueFrom" not in entry:
            result[name] = expanded(entry.get("value", ""), result)
            continue
        value = _value_from(
            entry["valueFrom"],
            container=container,
            fields=fields,
            objects=objects,
            field=f"{source}: spec.env ({name})",
        )
        if value is not None:
            result[name] = value
    return result


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Replace $(NAME) by the variable's value; an unknown name stays, and $$ is a dollar sign."""

    def replacement(match: re.Match[str]) -> str:
        name = match.group(1)
        return "$" if name is None else variables.get(name, match.group(0))

    return _REFERENCE.sub(replacement, text)


def _all_keys(entry: JsonDict, *, objects: Objects, field: str) -> dict[str, str]:
    kind = "ConfigMap" if "configMapRef" in entry else "Secret"
    reference = entry["configMapRef" if kind == "ConfigMap" else "secretRef"]
    content = objects.content(
        kind, name=reference["name"], optional=bool(reference.get("optional")), field=field
    )
    prefix = entry.get("prefix", "")
    return {prefix + key: _text(data) for key, data in (content or {}).items()}


def _value_from(
    source: JsonDict, *, container: JsonDict, fields: Mapping[str, str], objects: Objects, field: str
) -> str | None:
    for key, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if key in source:
            ref = source[key]
            optional = bool(ref.get("optional"))
            data = objects.key(kind, name=ref["name"], key=ref["key"], optional=optional, field=field)
            return None if data is None else _text(data)
    if "fieldRef" in source:
        path = source["fieldRef"]["fieldPath"]
        if path in fields or _KEY_OF_A_FIELD.fullmatch(path):
            return fields.get(path, "")
        raise InputError(f"{field}: the field {path} exists only in a cluster")
    return _resource(source["resourceFieldRef"], container=container, field=field)


def _resource(reference: JsonDict, *, container: JsonDict, field: str) -> str:
    group, _, name = reference["resource"].partition(".")
    quantity = container["resources"].get(group, {}).get(name)
    if quantity is None or name not in ("cpu", "memory"):
        raise InputError(f"{field}: the resource {reference['resource']} exists only in a cluster")
    divisor = reference.get("divisor") or "1"
    return str(math.ceil(_amount(quantity) / (_amount(divisor) or 1)))


def _amount(quantity: str) -> float:
    text = str(quantity)
    return int(text[:-1]) / 1000 if text.endswith("m") else float(memory_bytes(text))


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
