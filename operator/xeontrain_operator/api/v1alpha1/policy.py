"""Storage, checkpoints, the run policy, the network between the ranks, and the pod's own extras."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from xeontrain_operator.api.v1alpha1.base import (
    INT_OR_STRING,
    IntOrString,
    KubeObject,
    LabelMap,
    Model,
    NamedKubeObject,
    ObjectName,
    PathText,
    cel,
    map_list,
    rules,
)
from xeontrain_operator.api.v1alpha1.quantity import MEMORY_MESSAGE, MEMORY_RULE
from xeontrain_operator.constants import CONTAINER_NAME, LAUNCHER_CONTAINER, MASTER_PORT


class Ccl(Model):
    """Intel oneCCL."""

    workers_per_rank: Annotated[
        IntOrString,
        Field(
            json_schema_extra=INT_OR_STRING
            | rules(
                cel(
                    "type(self) == int ? self >= 1 && self <= 16 : self == 'Auto'",
                    "write Auto or a number from 1 to 16",
                )
            )
        ),
    ] = "Auto"
    """Communication threads of a rank; Auto: by the plan."""
    provider: Literal["tcp", "verbs", "psm3", "shm"] = "tcp"
    """Provider of libfabric."""


class Distributed(Model):
    """The network between the ranks."""

    backend: Literal["Auto", "Gloo", "CCL"] = "Auto"
    """Auto: CCL where its binding loads in every rank, Gloo otherwise."""
    port: Annotated[int, Field(ge=1024, le=65_435)] = MASTER_PORT
    """First of the 100 ports that the rendezvous uses."""
    timeout_seconds: Annotated[int, Field(ge=10, le=86_400)] = 600
    """How long a worker that runs may fail to join, and how long a rank waits for the others."""
    interface: Annotated[str, Field(min_length=1, max_length=15, pattern=r"^[^/\s:]+$")] | None = None
    """Network interface; unset: the one with the pod's IP."""
    ccl: Ccl = Ccl()
    """Settings of oneCCL."""


class Storage(Model):
    """Where checkpoints, the result and the final model go."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            cel(
                "has(self.claim) != has(self.size)",
                "write exactly one of claim (an existing PersistentVolumeClaim) and size (new claims)",
            ),
            cel("!has(self.storageClass) || has(self.size)", "storageClass goes with size, not with claim"),
            cel("!has(self.subPath) || has(self.claim)", "subPath goes with claim, not with size"),
            cel(
                "!has(self.claim) || self.retain == 'Keep'",
                "retain: Delete is for claims made for this job (size); an existing claim is never deleted",
            ),
        )
    )

    claim: ObjectName | None = None
    """Name of an existing claim. With several workers: a ReadWriteMany one, or placement.spread Packed."""
    sub_path: (
        Annotated[
            str,
            Field(
                min_length=1,
                max_length=1024,
                json_schema_extra=rules(
                    cel(
                        "!self.startsWith('/') && !self.matches('(^|/)[.][.](/|$)')",
                        "write a relative path without .., such as team-a/models",
                    )
                ),
            ),
        ]
        | None
    ) = None
    """Folder inside the claim; the job makes a folder of its own below it."""
    size: (
        Annotated[
            IntOrString,
            Field(json_schema_extra=INT_OR_STRING | rules(cel(MEMORY_RULE, MEMORY_MESSAGE))),
        ]
        | None
    ) = None
    """Size of the claim made for each worker, such as 10Gi; only worker 0's is used."""
    storage_class: ObjectName | None = None
    """Storage class of those claims; the cluster's default where unset."""
    retain: Literal["Keep", "Delete"] = "Keep"
    """Whether those claims outlive the job."""


class Checkpoint(Model):
    """When the state of the training is saved. Needs storage."""

    every_steps: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    """Save after this many optimizer steps."""
    every_minutes: Annotated[int, Field(ge=1, le=10_080)] = 10
    """Save when this many minutes have passed since the last time."""
    keep: Annotated[int, Field(ge=2, le=1000)] = 2
    """Newest checkpoints kept; at least 2, so that there is always a whole one."""
    resume: PathText | None = None
    """Checkpoint to start from, as a path in the container; unset: this job's own newest."""


class RunPolicy(Model):
    """The life of the job, in the names that users of Kubeflow and KubeRay know."""

    suspend: bool = False
    """Whether the job is to have no pods for now; it goes on from its last checkpoint."""
    backoff_limit: Annotated[int, Field(ge=0, le=1000)] = 3
    """Failures after which the job ends. Preemptions are not failures."""
    active_deadline_seconds: Annotated[int, Field(ge=1, le=31_536_000)] | None = None
    """Seconds that the job may run in all before it fails; unset: no limit."""
    pre_running_deadline_seconds: Annotated[int, Field(ge=10, le=31_536_000)] = 600
    """Seconds after which a job with only some of its pods makes room for another, and after which one that
    cannot start, such as for an image that is not there, fails. Waiting for nodes alone never fails a job."""
    grace_period_seconds: Annotated[int, Field(ge=15, le=86_400)] = 120
    """Seconds that pods have to save and stop. Ranks that still run 10 s before that are killed."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=31_536_000)] | None = None
    """Seconds from its end until the job is deleted; unset: never."""
    clean_pod_policy: Literal["Running", "All", "None"] = "Running"
    """What goes when the job ends. Running: the pods. All: everything but the log. None: nothing."""
    managed_by: (
        Annotated[
            str,
            Field(
                min_length=1,
                max_length=63,
                json_schema_extra=rules(
                    cel(
                        "self in ['xeontrain.dev/operator', 'kueue.x-k8s.io/multikueue']",
                        "write xeontrain.dev/operator or kueue.x-k8s.io/multikueue, or leave it out",
                    )
                ),
            ),
        ]
        | None
    ) = None
    """Who runs the job: this operator where unset; a job of another is left alone."""


class PodTemplate(Model):
    """Additions to the pods that no other field names."""

    labels: LabelMap = Field(default_factory=dict)
    """Labels of the pods."""
    annotations: Annotated[dict[str, Annotated[str, Field(max_length=16_384)]], Field(max_length=64)] = Field(
        default_factory=dict
    )
    """Annotations of the pods."""
    service_account_name: ObjectName | None = None
    """Service account of the pods; its token is not mounted."""
    security_context: KubeObject | None = None
    """Security context of the pods, merged over the restricted one."""
    container_security_context: KubeObject | None = None
    """Security context of the trainer container, merged over the restricted one."""
    containers: Annotated[
        tuple[NamedKubeObject, ...],
        Field(
            max_length=8,
            json_schema_extra=map_list("name")
            | rules(
                cel(
                    f"self.all(c, !(c.name in ['{CONTAINER_NAME}', '{LAUNCHER_CONTAINER}']))",
                    f"{CONTAINER_NAME} and {LAUNCHER_CONTAINER} are names of the job's own containers; "
                    "choose another",
                )
            ),
        ),
    ] = ()
    """More containers, as in a pod. Their requests are set equal to their limits, which they must have."""
