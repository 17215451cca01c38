"""`status` of a XeonTrainJob: what is, written by the operator alone."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from xeontrain_operator.api.v1alpha1.base import ATOMIC, Model, ShortText, Timestamp, map_list

Phase = Literal["Pending", "Starting", "Running", "Restarting", "Suspended", "Succeeded", "Failed"]
TriState = Literal["True", "False", "Unknown"]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
LargeCount = Annotated[int, Field(ge=0, le=2**53)]
DisplayText = Annotated[str, Field(max_length=64)]
Reason = Annotated[str, Field(max_length=512)]
Message = Annotated[str, Field(max_length=4096)]
Remark = Annotated[str, Field(max_length=500)]


class Condition(Model):
    """One aspect of the job's state, by the conventions of Kubernetes."""

    type: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    """What the condition is about, such as CPUPinned."""
    status: TriState
    """Whether it holds."""
    reason: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    """Why, as one word for programs."""
    message: Message
    """Why, as a sentence for people."""
    last_transition_time: Timestamp
    """When the status last changed."""
    observed_generation: LargeCount | None = None
    """Generation of the spec that it speaks of."""


class WorkersStatus(Model):
    """The worker pods."""

    desired: Count = 0
    """Pods wanted."""
    ready: Count = 0
    """Pods that run and report."""
    display: DisplayText | None = None
    """Both for people, such as 2/2."""


class ProgressStatus(Model):
    """How far the training is, as worker 0 reported it last."""

    step: LargeCount | None = None
    """Optimizer steps done."""
    total_steps: LargeCount | None = None
    """Optimizer steps in all."""
    epoch: Annotated[float, Field(ge=0, le=1_000_000_000)] | None = None
    """Epochs done, with the part of the current one."""
    percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """Steps done in percent, rounded down."""
    loss: float | None = None
    """Loss of the last step reported, to 4 digits."""
    samples_per_second: Annotated[float, Field(ge=0)] | None = None
    """Samples a second of all ranks together, to 3 digits."""
    eta_seconds: LargeCount | None = None
    """Seconds left."""
    eta_display: DisplayText | None = None
    """Time left for people, such as 1m20s."""
    display: DisplayText | None = None
    """Progress for people, such as 63% (79/125)."""
    last_checkpoint_step: LargeCount | None = None
    """Step of the newest whole checkpoint."""
    updated_at: Timestamp | None = None
    """When worker 0 measured this."""


class CpuStatus(Model):
    """What the ranks compute on."""

    model: ShortText | None = None
    """The processor's own name."""
    instruction_set: DisplayText | None = None
    """Best instruction set used, such as AMX_BF16."""
    precision: DisplayText | None = None
    """BF16 or FP32, as the ranks agreed."""
    precision_reason: Reason | None = None
    """Why this precision."""
    fp32_samples_per_second: Annotated[float, Field(ge=0)] | None = None
    """Samples a second of all ranks in FP32, by the probe that precision Auto makes."""
    bf16_samples_per_second: Annotated[float, Field(ge=0)] | None = None
    """The same in BF16."""
    backend: DisplayText | None = None
    """Gloo or CCL, as the ranks agreed."""
    backend_reason: Reason | None = None
    """Why this backend."""
    ipex_used: bool | None = None
    """Whether Intel Extension for PyTorch is used."""
    ipex_reason: Reason | None = None
    """Why it is used, or why not."""
    ranks: Count | None = None
    """Ranks in all."""
    cores_per_rank: Count | None = None
    """Cores that each rank computes on."""
    comm_cores_per_rank: Count | None = None
    """Cores that each rank communicates on."""
    mixed: bool | None = None
    """Whether the workers' processors differ, so that the slowest sets the pace."""
    warnings: Annotated[tuple[Remark, ...], Field(max_length=16, json_schema_extra=ATOMIC)] | None = None
    """What to know of the plan, such as values in env that win over its own; of worker 0."""


class RestartsStatus(Model):
    """What interrupted the run."""

    failures: Count = 0
    """Failures, which backoffLimit counts."""
    preemptions: Count = 0
    """Pods lost with no fault of the job."""
    last_reason: Message | None = None
    """Cause of the newest of them; of all, where several were found at once."""
    last_counted: Annotated[str, Field(max_length=128)] | None = None
    """Identity of the newest failure of a round that is counted."""
    display: DisplayText | None = None
    """For people: the failures, with the preemptions where there are any, such as 1 (+2)."""


class ResultStatus(Model):
    """What came out."""

    metrics: Annotated[dict[str, float], Field(max_length=64)] = Field(default_factory=dict)
    """Final metrics by name, such as accuracy."""
    model: Annotated[str, Field(max_length=1024)] | None = None
    """Where the model is: a claim and the path in it."""
    log: ShortText | None = None
    """ConfigMap with the end of the logs."""


class UsageStatus(Model):
    """What it took."""

    core_hours: Annotated[float, Field(ge=0)] = 0
    """CPUs times hours that its pods held them, up to since."""
    held_cpus: Annotated[float, Field(ge=0)] | None = None
    """CPUs that its pods hold now; absent where they hold none."""
    since: Timestamp | None = None
    """Since when they hold just these."""
    cost: Annotated[float, Field(ge=0)] | None = None
    """By the price of the node pool."""
    cost_display: DisplayText | None = None
    """Cost for people, such as 1.27."""


class WorkerStatus(Model):
    """One worker."""

    worker: Annotated[int, Field(ge=0, le=511)]
    """Its number."""
    pod: ShortText | None = None
    """Name of its pod."""
    pod_uid: Annotated[str, Field(max_length=64)] | None = None
    """UID of the pod that was counted last."""
    node: ShortText | None = None
    """Node it runs on."""
    state: DisplayText | None = None
    """What its launcher does, such as Running."""
    cpus: Annotated[str, Field(max_length=1024)] | None = None
    """CPUs it may use, such as 0-3,8."""
    exclusive: TriState | None = None
    """Whether they are proved to be its own."""
    reason: Annotated[str, Field(max_length=128)] | None = None
    """Why, as one word."""
    samples_per_second: Annotated[float, Field(ge=0)] | None = None
    """What it would reach if it waited for no other worker, to 2 digits."""
    restarts: Count = 0
    """Restarts of its container that are counted already."""
    removed_pod_uid: Annotated[str, Field(max_length=64)] | None = None
    """UID of the pod that was deleted because it did not join the others; that failure is counted."""
    disruption: Annotated[str, Field(max_length=512)] | None = None
    """Why Kubernetes takes its pod away, in its own words, until the next pod runs."""


class XeonTrainJobStatus(Model):
    """What is."""

    conditions: Annotated[
        tuple[Condition, ...], Field(max_length=32, json_schema_extra=map_list("type"))
    ] = ()
    """Aspects of the job's state."""
    observed_generation: LargeCount | None = None
    """Generation of the spec that this status speaks of."""
    phase: Phase | None = None
    """Summary of the conditions in one word."""
    workers: WorkersStatus | None = None
    """The worker pods."""
    progress: ProgressStatus | None = None
    """How far the training is."""
    cpu: CpuStatus | None = None
    """What the ranks compute on."""
    restarts: RestartsStatus | None = None
    """What interrupted the run."""
    result: ResultStatus | None = None
    """What came out."""
    usage: UsageStatus | None = None
    """What it took."""
    image: Annotated[str, Field(max_length=512)] | None = None
    """Image that the pods run."""
    start_time: Timestamp | None = None
    """When all workers ran for the first time."""
    completion_time: Timestamp | None = None
    """When the job succeeded or failed."""
    worker_statuses: Annotated[
        tuple[WorkerStatus, ...], Field(max_length=512, json_schema_extra=map_list("worker"))
    ] = ()
    """Each worker's node and CPUs."""
