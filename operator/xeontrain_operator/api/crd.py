"""The CustomResourceDefinition, generated from the models.

Pydantic's JSON schema is not what the API server takes: it wants a structural schema, with no references, no
unions but int-or-string, OpenAPI 3.0's boolean `exclusiveMinimum`, and defaults on the parents of defaults.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from xeontrain_operator.api.v1alpha1 import XeonTrainJob
from xeontrain_operator.constants import GROUP, KIND, PLURAL, SHORT_NAME, VERSION

Schema = dict[str, Any]

VALIDATIONS: Final = "x-kubernetes-validations"
PRESERVE_UNKNOWN: Final = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"

CRD_NAME: Final = f"{PLURAL}.{GROUP}"

# What pydantic writes and the API server does not know, or refuses.
_DROPPED_KEYS: Final = ("title", "additionalProperties", "default", "anyOf", "$ref", "$defs")
# The order of keys in a node: the text of the CRD is stable, and reads from the general to the particular.
_KEY_ORDER: Final = (
    "description",
    "type",
    INT_OR_STRING,
    PRESERVE_UNKNOWN,
    "anyOf",
    "format",
    "enum",
    "default",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "maxProperties",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    VALIDATIONS,
    "required",
    "items",
    "additionalProperties",
    "properties",
)


def _column(name: str, path: str, type_: str = "string", *, wide: bool = False) -> dict[str, Any]:
    return {"name": name, "type": type_, "jsonPath": path, **({"priority": 1} if wide else {})}


PRINTER_COLUMNS: Final = (
    _column("Phase", ".status.phase"),
    _column("Workers", ".status.workers.display"),
    _column("Progress", ".status.progress.display"),
    _column("Loss", ".status.progress.loss", "number"),
    _column("Samples/s", ".status.progress.samplesPerSecond", "number"),
    _column("ETA", ".status.progress.etaDisplay"),
    _column("Restarts", ".status.restarts.display"),
    _column("Age", ".metadata.creationTimestamp", "date"),
    _column("Pinned", '.status.conditions[?(@.type=="CPUPinned")].status', wide=True),
    _column("Precision", ".status.cpu.precision", wide=True),
    _column("Backend", ".status.cpu.backend", wide=True),
    _column("Pool", ".spec.nodePool", wide=True),
    _column("Cost", ".status.usage.costDisplay", wide=True),
)


def crd() -> dict[str, Any]:
    """Return the CustomResourceDefinition as a document."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD_NAME},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": [SHORT_NAME],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [dict(column) for column in PRINTER_COLUMNS],
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": structural_schema()},
                }
            ],
        },
    }


def crd_yaml() -> str:
    """Return the CRD as YAML, the same text each time."""
    return as_yaml(crd())


def as_yaml(document: Any) -> str:
    """Write the CRD, or a part of it, as YAML.

    What has only scalars inside stands on one line: four fifths of the size, and a field is seen at a glance.
    """
    text: str = yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True, default_flow_style=None
    )
    return text


class _Dumper(yaml.SafeDumper):
    """Writes equal pieces in full each time: kubectl reads anchors, people do not."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def structural_schema() -> Schema:
    """Return the OpenAPI v3 schema of the resource, as the CRD carries it."""
    raw = XeonTrainJob.model_json_schema(by_alias=True, mode="validation")
    root = _structural(raw, definitions=raw["$defs"])
    # The API server owns metadata; only its name may be spoken of.
    name = {"type": "string", "maxLength": 253}
    own = root["properties"]
    properties = {
        "apiVersion": {"type": "string", "description": "Version of this resource's schema."},
        "kind": {"type": "string", "description": "Kind of the resource."},
        "metadata": {"type": "object", "properties": {"name": name}},
        "spec": own["spec"],
        "status": {key: value for key, value in own["status"].items() if key != "default"},
    }
    return _ordered({**root, "required": ["spec"], "properties": properties})


def _structural(node: Schema, *, definitions: dict[str, Schema]) -> Schema:
    """Rewrite one node of pydantic's schema, and all below it."""
    node = _resolved(node, definitions=definitions)
    result = {key: value for key, value in node.items() if key not in _DROPPED_KEYS}
    if result.get(INT_OR_STRING):
        result["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if "const" in result:
        result["enum"] = [result.pop("const")]
    if "description" in result:
        result["description"] = " ".join(result["description"].split())
    _write_bounds(result)
    if "properties" in node:
        result["properties"] = {
            name: _structural(child, definitions=definitions) for name, child in node["properties"].items()
        }
    elif isinstance(node.get("additionalProperties"), dict):
        result["additionalProperties"] = _structural(node["additionalProperties"], definitions=definitions)
    if "items" in node:
        result["items"] = _structural(node["items"], definitions=definitions)
    _write_default(result, node.get("default"))
    return _ordered(result)


def _resolved(node: Schema, *, definitions: dict[str, Schema]) -> Schema:
    """Inline references, and take the one real member of `X | None`."""
    while True:
        if "$ref" in node:
            base = definitions[node["$ref"].rsplit("/", 1)[1]]
        else:
            members = [member for member in node.get("anyOf", ()) if member.get("type") != "null"]
            if len(members) != 1:
                return node
            base = members[0]
        rest = {key: value for key, value in node.items() if key not in ("$ref", "anyOf")}
        merged = {**base, **rest}
        if VALIDATIONS in base and VALIDATIONS in rest:
            merged[VALIDATIONS] = [*base[VALIDATIONS], *rest[VALIDATIONS]]
        node = merged


def _write_bounds(node: Schema) -> None:
    for exclusive, inclusive in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if exclusive in node:
            node[inclusive], node[exclusive] = node[exclusive], True
    if node.get("type") == "integer":
        fits = node.get("minimum", -(2**63)) >= -(2**31) and node.get("maximum", 2**63) < 2**31
        node["format"] = "int32" if fits else "int64"
    if node.get("type") == "number":
        node["format"] = "double"


def _write_default(node: Schema, default: Any) -> None:
    """Keep the default. An object's own is empty, so that those of its fields fire; empty lists go unsaid."""
    if "properties" in node and isinstance(default, dict):
        node["default"] = {}
    elif default not in (None, [], {}):
        node["default"] = default


def _ordered(node: Schema) -> Schema:
    return dict(sorted(node.items(), key=lambda item: _KEY_ORDER.index(item[0])))
