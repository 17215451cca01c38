"""What all models of the resource share, and the helpers that keep a CEL rule beside its field."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr
from pydantic.alias_generators import to_camel

JsonDict = dict[str, Any]


class Model(BaseModel):
    """A frozen piece of the resource: snake_case in Python, camelCase in documents.

    Unknown keys are ignored here (the API server prunes them, `xeontrain validate` refuses them), so that an
    operator can read a document that was written for a newer one.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )

    def to_dict(self) -> JsonDict:
        """Return the piece as it stands in a document: camelCase, unset fields left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def cel(rule: str, message: str, *, field_path: str | None = None) -> dict[str, str]:
    """One entry of `x-kubernetes-validations`.

    The message says what to write instead. `field_path`, such as `.resources.cpu`, is the field below the
    rule's own place that the error is about.
    """
    return {"rule": rule, "message": message, **({"fieldPath": field_path} if field_path else {})}


def rules(*entries: dict[str, str]) -> JsonDict:
    """JSON schema extra that carries CEL rules on a field or a model."""
    return {"x-kubernetes-validations": list(entries)}


def map_list(*keys: str) -> JsonDict:
    """JSON schema extra of a list whose items are told apart by `keys`, which also makes them unique."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


ATOMIC: JsonDict = {"x-kubernetes-list-type": "atomic"}
SET: JsonDict = {"x-kubernetes-list-type": "set"}
PRESERVE: JsonDict = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
"""A piece of core Kubernetes, kept as it is: with its descriptions it would need 35 to 83 KB of CRD each."""

INT_OR_STRING: JsonDict = {"x-kubernetes-int-or-string": True, "maxLength": 32}

IntOrString = Annotated[StrictInt | StrictStr, Field(json_schema_extra=INT_OR_STRING)]
KubeObject = Annotated[JsonDict, Field(json_schema_extra=PRESERVE)]
NamedKubeObject = Annotated[
    JsonDict,
    Field(
        json_schema_extra=PRESERVE
        | {
            "required": ["name"],
            "properties": {
                "name": {
                    "type": "string",
                    "description": "Its name.",
                    "minLength": 1,
                    "maxLength": 63,
                    "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
                }
            },
        }
    ),
]
"""An item of a list that is told apart by names, which need declaring for that."""

LabelName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
"""An RFC 1123 label: the name of a volume, a container or a pool."""
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")]
"""An RFC 1123 subdomain: the name of most objects."""
ShortText = Annotated[str, Field(max_length=253)]
PathText = Annotated[str, Field(min_length=1, max_length=1024)]
KeyText = Annotated[str, Field(min_length=1, max_length=253)]
Timestamp = Annotated[str, Field(max_length=40, json_schema_extra={"format": "date-time"})]
"""RFC 3339 in UTC with a Z."""
LabelValue = Annotated[
    str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
]
_LABEL_KEY = r"^([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
LabelMap = Annotated[
    dict[str, LabelValue],
    Field(
        max_length=64,
        json_schema_extra=rules(
            cel(
                f"self.all(key, key.matches('{_LABEL_KEY}'))",
                "write label names such as team or example.com/team",
            )
        ),
    ),
]
