"""The whole resource, and how a document becomes one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from xeontrain_operator.api.errors import InvalidJobError
from xeontrain_operator.api.v1alpha1.base import Model, cel, rules
from xeontrain_operator.api.v1alpha1.spec import XeonTrainJobSpec
from xeontrain_operator.api.v1alpha1.status import XeonTrainJobStatus
from xeontrain_operator.constants import API_VERSION, KIND, MAX_NAME_LENGTH


class Metadata(Model):
    """The parts of an object's metadata that the operator uses."""

    name: str = Field(min_length=1)
    """Name of the job."""
    namespace: str = "default"
    """Namespace of the job."""
    uid: str = ""
    """UID; empty for a document that has not met an API server."""
    generation: int = 0
    """Counts changes of the spec."""
    resource_version: str = ""
    """Version of the object, for writes that must not overwrite another's."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels of the job."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations of the job."""
    creation_timestamp: str | None = None
    """When it was made."""
    deletion_timestamp: str | None = None
    """When its deletion was asked for."""


class XeonTrainJob(Model):
    """A fine-tuning run on Intel Xeon nodes."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            cel(
                f"self.metadata.name.size() <= {MAX_NAME_LENGTH} && "
                "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
                f"write at most {MAX_NAME_LENGTH} characters: lowercase letters, digits and -, beginning "
                "with a letter and ending with a letter or digit",
                field_path=".metadata.name",
            )
        )
    )

    metadata: Metadata
    """Name, namespace and identity."""
    spec: XeonTrainJobSpec
    """What is wanted."""
    status: XeonTrainJobStatus = XeonTrainJobStatus()
    """What is."""


def parse_job(document: Mapping[str, Any]) -> XeonTrainJob:
    """Read a job's document, all defaults filled in.

    Types, bounds and enumerations are checked; CEL rules are not (see `validation`). Raises InvalidJobError.
    """
    if document.get("apiVersion") != API_VERSION or document.get("kind") != KIND:
        found = f"{document.get('apiVersion')}, kind {document.get('kind')}"
        raise InvalidJobError([("apiVersion", f"is {found}; write {API_VERSION}, kind {KIND}")])
    # An explicit null means "not set", as it does for the API server.
    parts = {key: document[key] for key in ("metadata", "spec", "status") if document.get(key) is not None}
    try:
        return XeonTrainJob.model_validate(without_nulls(parts))
    except ValidationError as error:
        raise InvalidJobError([_problem(entry) for entry in error.errors()]) from None


def without_nulls(value: Any) -> Any:
    """Return the document without keys whose value is null."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def _problem(entry: Any) -> tuple[str, str]:
    path = ""
    for part in entry["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path, str(entry["msg"])
