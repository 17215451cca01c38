"""The small pieces of core Kubernetes that the resource types itself, because its rules look into them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from xeontrain_operator.api.v1alpha1.base import (
    KeyText,
    LabelName,
    Model,
    ObjectName,
    PathText,
    ShortText,
    cel,
    rules,
)
from xeontrain_operator.constants import LAUNCHER_DIR, OWNED_ENV, STATE_DIR, STORAGE_DIR, TRAINING_DIR

# Names of the project's own prefix are refused by a rule of their own, so the list holds only torchrun's.
_TORCHRUN_ENV = tuple(name for name in OWNED_ENV if not name.startswith("XEONTRAIN_"))
_OWNED_DIRS = (STATE_DIR, TRAINING_DIR, STORAGE_DIR, LAUNCHER_DIR, "/dev/shm")


def _quoted(names: tuple[str, ...]) -> str:
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"


EnvName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=256,
        pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$",
        json_schema_extra=rules(
            cel(
                f"!(self in {_quoted(_TORCHRUN_ENV)})",
                "the launcher sets this variable in each rank; remove it (workers and ranksPerWorker decide "
                "the world size, distributed.port the port)",
            ),
            cel(
                "!self.startsWith('XEONTRAIN_')",
                "names that begin with XEONTRAIN_ belong to the launcher; choose another name",
            ),
        ),
    ),
]

MountPath = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1024,
        json_schema_extra=rules(
            cel(
                "self.startsWith('/') && !self.contains(':')",
                "write an absolute path without a colon, such as /data",
            ),
            cel(
                f"!self.matches('^/+({'|'.join(path.lstrip('/') for path in _OWNED_DIRS)})/*$')",
                f"{', '.join(_OWNED_DIRS)} are mounted by the operator; choose another path, such as /data",
            ),
        ),
    ),
]


class ObjectKey(Model):
    """A key of a ConfigMap or a Secret of the job's namespace."""

    name: ObjectName
    """Name of the ConfigMap or Secret."""
    key: KeyText
    """The key to take."""
    optional: bool | None = None
    """Whether the pod may start where the object or the key is missing."""


class FieldKey(Model):
    """A field of the pod, as in the downward API."""

    api_version: Annotated[str, Field(max_length=32)] | None = None
    """Version of the schema of the path; v1 where unset."""
    field_path: ShortText
    """Path in the pod, such as status.hostIP."""


class ResourceKey(Model):
    """A resource of a container, as in the downward API."""

    container_name: LabelName | None = None
    """Container whose resource it is; the trainer where unset."""
    resource: ShortText
    """The resource, such as limits.memory."""
    divisor: Annotated[str, Field(max_length=32)] | None = None
    """Unit of the value, such as 1Mi."""


class EnvSource(Model):
    """Where the value of a variable comes from; exactly one of the four."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            cel(
                "[has(self.configMapKeyRef), has(self.secretKeyRef), has(self.fieldRef), "
                "has(self.resourceFieldRef)].filter(x, x).size() == 1",
                "write exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef",
            )
        )
    )

    config_map_key_ref: ObjectKey | None = None
    """A key of a ConfigMap."""
    secret_key_ref: ObjectKey | None = None
    """A key of a Secret."""
    field_ref: FieldKey | None = None
    """A field of the pod."""
    resource_field_ref: ResourceKey | None = None
    """A resource of a container."""


class EnvVar(Model):
    """One environment variable."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            cel("!(has(self.value) && has(self.valueFrom))", "write value or valueFrom, not both")
        )
    )

    name: EnvName
    """Name of the variable. The names that the launcher owns, such as RANK and MASTER_ADDR, are refused."""
    value: Annotated[str, Field(max_length=32768)] | None = None
    """Its value; numbers and true must be quoted."""
    value_from: EnvSource | None = None
    """Where the value comes from instead."""


class ObjectRef(Model):
    """A ConfigMap or a Secret of the job's namespace."""

    name: ObjectName
    """Name of the object."""
    optional: bool | None = None
    """Whether the pod may start where it is missing."""


class EnvFrom(Model):
    """All keys of a ConfigMap or a Secret as variables; what `env` sets wins over them."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            cel(
                "has(self.configMapRef) != has(self.secretRef)",
                "write exactly one of configMapRef and secretRef",
            )
        )
    )

    prefix: Annotated[str, Field(max_length=253)] | None = None
    """Text put before each key."""
    config_map_ref: ObjectRef | None = None
    """The ConfigMap."""
    secret_ref: ObjectRef | None = None
    """The Secret."""


class VolumeMount(Model):
    """Where a volume of the job appears in the trainer container."""

    name: LabelName
    """Name of the volume in `volumes`."""
    mount_path: MountPath
    """Absolute path in the container."""
    sub_path: PathText | None = None
    """Folder or file inside the volume."""
    read_only: bool | None = None
    """Whether it is mounted read-only."""


class Toleration(Model):
    """A taint that the pods tolerate."""

    key: Annotated[str, Field(max_length=316)] | None = None
    """Key of the taint; unset with operator Exists: every taint."""
    operator: Literal["Exists", "Equal"] | None = None
    """How the value is compared; Equal where unset."""
    value: Annotated[str, Field(max_length=63)] | None = None
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; unset: every effect."""
    toleration_seconds: Annotated[int, Field(ge=0, le=2**53)] | None = None
    """How long a NoExecute taint is tolerated; unset: for ever."""


class LocalObjectReference(Model):
    """An object of the job's namespace."""

    name: ObjectName
    """Name of the object."""
