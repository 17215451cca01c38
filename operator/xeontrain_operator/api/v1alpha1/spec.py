"""`spec` of a XeonTrainJob and the rules between its fields."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from xeontrain_operator.api.v1alpha1.base import (
    ATOMIC,
    INT_OR_STRING,
    IntOrString,
    LabelName,
    Model,
    NamedKubeObject,
    cel,
    map_list,
    rules,
)
from xeontrain_operator.api.v1alpha1.core import EnvFrom, EnvVar, LocalObjectReference, VolumeMount
from xeontrain_operator.api.v1alpha1.immutability import immutability_rules
from xeontrain_operator.api.v1alpha1.placement import Placement
from xeontrain_operator.api.v1alpha1.policy import Checkpoint, Distributed, PodTemplate, RunPolicy, Storage
from xeontrain_operator.api.v1alpha1.quantity import (
    CPU_MESSAGE,
    CPU_RULE,
    MEMORY_MESSAGE,
    MEMORY_RULE,
    WHOLE_CPU_PATTERN,
)
from xeontrain_operator.api.v1alpha1.training import Training

Cpu = Annotated[IntOrString, Field(json_schema_extra=INT_OR_STRING | rules(cel(CPU_RULE, CPU_MESSAGE)))]
Memory = Annotated[
    IntOrString, Field(json_schema_extra=INT_OR_STRING | rules(cel(MEMORY_RULE, MEMORY_MESSAGE)))
]
Argument = Annotated[str, Field(max_length=32_768)]

Volumes = Annotated[
    tuple[NamedKubeObject, ...],
    Field(
        max_length=64,
        json_schema_extra=map_list("name")
        | rules(
            cel(
                "self.all(v, !v.name.startsWith('xeontrain-'))",
                "names that begin with xeontrain- belong to the operator's own volumes; choose another",
            )
        ),
    ),
]


class Resources(Model):
    """What each worker gets. Requests equal limits: only a Guaranteed pod can have CPUs of its own."""

    cpu: Cpu
    """CPUs of a worker, whole unless pinning is Disabled: 8, "8" and "8000m" are the same."""
    memory: Memory
    """Memory of a worker, such as 16Gi."""
    shared_memory: Memory | None = None
    """Size of /dev/shm, which counts as memory; half of memory where unset."""


_SPEC_RULES = (
    cel(
        "has(self.training) != has(self.command)",
        "write exactly one of training (the built-in fine-tuning) and command (a script of your own)",
    ),
    cel(
        "!has(self.args) || has(self.command)",
        "args go with command; remove them or write command",
        field_path=".args",
    ),
    cel(
        "!has(self.workingDir) || has(self.command)",
        "workingDir goes with command; remove it or write command",
        field_path=".workingDir",
    ),
    cel(
        "self.pinning == 'Disabled' || type(self.resources.cpu) == int || "
        f"self.resources.cpu.matches('{WHOLE_CPU_PATTERN}')",
        'CPUs can only be pinned whole: write whole CPUs in resources.cpu, such as "8", or pinning: Disabled',
        field_path=".resources.cpu",
    ),
    cel(
        "!has(self.training) || (type(self.ranksPerWorker) == int ? self.workers * self.ranksPerWorker : "
        "self.workers) <= self.training.hyperparameters.batchSize",
        "more ranks than samples in a batch: raise training.hyperparameters.batchSize to at least workers x "
        "ranksPerWorker, or lower one of the two",
        field_path=".workers",
    ),
    cel(
        "!has(self.volumeMounts) || self.volumeMounts.all(m, has(self.volumes) && "
        "self.volumes.exists(v, v.name == m.name))",
        "a volumeMount names a volume that is not in volumes: add it there or correct the name",
        field_path=".volumeMounts",
    ),
)


class XeonTrainJobSpec(Model):
    """What is wanted."""

    model_config = ConfigDict(json_schema_extra=rules(*_SPEC_RULES, *immutability_rules()))

    workers: Annotated[int, Field(ge=1, le=512)] = 1
    """Number of worker pods."""
    ranks_per_worker: Annotated[
        IntOrString,
        Field(
            json_schema_extra=INT_OR_STRING
            | rules(
                cel(
                    "type(self) == int ? self >= 1 && self <= 64 : self == 'Auto'",
                    "write Auto or a number from 1 to 64",
                )
            )
        ),
    ] = "Auto"
    """Training processes in each worker; Auto: one for each NUMA node that the worker has CPUs of."""
    image: Annotated[str, Field(min_length=1, max_length=512, pattern=r"^\S+$")] | None = None
    """Container image; the operator's trainer image where unset."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the image is pulled; as in a pod where unset."""
    image_pull_secrets: Annotated[
        tuple[LocalObjectReference, ...], Field(max_length=16, json_schema_extra=map_list("name"))
    ] = ()
    """Secrets for the image's registry."""
    resources: Resources
    """What each worker gets."""
    pinning: Literal["Required", "Preferred", "Disabled"] = "Preferred"
    """CPUs of its own for each worker. Required: fails at once where they are not proved. Preferred: runs all
    the same, condition CPUPinned tells. Disabled: shared CPUs will do."""
    node_pool: LabelName | None = None
    """A pool that the platform team declared: node selector, tolerations and price."""
    placement: Placement = Placement()
    """On which nodes the pods run."""
    distributed: Distributed = Distributed()
    """The network between the ranks."""
    training: Training | None = None
    """The built-in fine-tuning; or write command."""
    command: (
        Annotated[tuple[Argument, ...], Field(min_length=1, max_length=64, json_schema_extra=ATOMIC)] | None
    ) = None
    """Program of your own, started once for each rank with the environment of torchrun; or write training."""
    args: Annotated[tuple[Argument, ...], Field(max_length=256, json_schema_extra=ATOMIC)] | None = None
    """Arguments of the command."""
    env: Annotated[tuple[EnvVar, ...], Field(max_length=256, json_schema_extra=map_list("name"))] = ()
    """Environment variables; they win over those that the operator sets."""
    env_from: Annotated[tuple[EnvFrom, ...], Field(max_length=32, json_schema_extra=ATOMIC)] = ()
    """ConfigMaps and Secrets whose keys become variables."""
    volumes: Volumes = ()
    """Volumes, as in a pod."""
    volume_mounts: Annotated[
        tuple[VolumeMount, ...], Field(max_length=64, json_schema_extra=map_list("mountPath"))
    ] = ()
    """Where those volumes appear in the container."""
    working_dir: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """Folder that the command starts in; the image's where unset."""
    storage: Storage | None = None
    """Where checkpoints, the result and the final model go. Without it the model is lost with the pods."""
    checkpoint: Checkpoint = Checkpoint()
    """When the state of the training is saved."""
    run_policy: RunPolicy = RunPolicy()
    """The life of the job."""
    pod_template: PodTemplate = PodTemplate()
    """Additions to the pods that no other field names."""
