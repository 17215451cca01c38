"""Condition types and reasons, and the one pure way to change a condition.

Names are part of the interface: people and programs wait for them (`kubectl wait --for=condition=Succeeded`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from xeontrain_operator.api.v1alpha1.status import Condition, TriState

# Types.
ACCEPTED: Final = "Accepted"
STORAGE: Final = "StorageReady"
CPU_PINNED: Final = "CPUPinned"
CPU_UNIFORM: Final = "CPUUniform"
PRECISION_NATIVE: Final = "PrecisionNative"
RESUME_INEXACT: Final = "ResumeInexact"
PLACED: Final = "Placed"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
SUSPENDED: Final = "Suspended"
CHILDREN: Final = "ChildrenReady"

# Reasons of ChildrenReady; RejectedByAPIServer is one too.
ALL_CHILDREN: Final = "AllMade"

# Reasons of Accepted.
VALID: Final = "Valid"
INVALID_SPEC: Final = "InvalidSpec"
UNKNOWN_NODE_POOL: Final = "UnknownNodePool"
FOREIGN_OBJECT: Final = "ForeignObject"
REJECTED_BY_API_SERVER: Final = "RejectedByAPIServer"
CLAIM_NOT_FOUND: Final = "ClaimNotFound"
CLAIM_NOT_SHARED: Final = "ClaimNotReadWriteMany"
PLACEMENT_CONFLICT: Final = "PlacementConflict"
BATCH_NOT_DIVISIBLE: Final = "BatchNotDivisible"

# Reasons of StorageReady.
STORAGE_CONFIGURED: Final = "Configured"
NO_STORAGE: Final = "NoStorage"
CLAIM_PENDING: Final = "ClaimPending"

# Reasons of CPUPinned. All but NotGuaranteed are those of `cpu.reason` in the contract.
EXCLUSIVE: Final = "Exclusive"
NOT_PROVEN: Final = "NotProven"
SHARED_POOL: Final = "SharedPool"
FRACTIONAL_CPU: Final = "FractionalCPU"
QUOTA_THROTTLED: Final = "QuotaThrottled"
DISABLED: Final = "Disabled"
NOT_GUARANTEED: Final = "NotGuaranteed"

# Reasons of CPUUniform.
SAME_CPU: Final = "SameCPU"
MIXED_CPUS: Final = "MixedCPUs"

# Reasons of PrecisionNative.
FULL_PRECISION: Final = "FullPrecision"
NATIVE_BF16: Final = "NativeBF16"
EMULATED_BF16: Final = "EmulatedBF16"

# Reasons of ResumeInexact.
RESUMED_EXACTLY: Final = "SameLayout"
RESUMED_OTHERWISE: Final = "OtherLayout"

# Reasons of Placed.
ALL_PLACED: Final = "AllPlaced"
WAITING_FOR_NODES: Final = "WaitingForNodes"
QUOTA_EXCEEDED: Final = "QuotaExceeded"
POD_REJECTED: Final = "PodRejected"
TOPOLOGY_MISFIT: Final = "TopologyMisfit"
SCHEDULING_GATED: Final = "SchedulingGated"
YIELDED_NODES: Final = "YieldedNodes"

# Reasons of Running.
CREATING: Final = "Creating"
STARTING: Final = "Starting"
WAITING_FOR_WORKERS: Final = "WaitingForWorkers"
NEVER_JOINED: Final = "WorkerNotJoined"
NOT_READY: Final = "WorkerNotReady"
WAITING_FOR_RANKS: Final = "WaitingForRanks"
TRAINING: Final = "Training"
RESTARTING: Final = "Restarting"
IMAGE_PULL_FAILED: Final = "ImagePullFailed"
CONTAINER_CONFIG_ERROR: Final = "ContainerConfigError"
VOLUME_NOT_MOUNTED: Final = "VolumeNotMounted"
SANDBOX_FAILED: Final = "SandboxFailed"
CRASH_LOOP: Final = "CrashLoop"
FINISHED: Final = "Finished"

# Reasons of Succeeded and Failed. The last four are those of the contract's result document.
ALL_RANKS_SUCCEEDED: Final = "AllRanksSucceeded"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
USER_ERROR: Final = "UserError"
BACKOFF_LIMIT_EXCEEDED: Final = "BackoffLimitExceeded"
NOT_PINNED: Final = "NotPinned"
PLAN_IMPOSSIBLE: Final = "PlanImpossible"

# Reasons of Suspended.
SUSPENDED_BY_USER: Final = "SuspendedByUser"
RESUMED: Final = "Resumed"

MESSAGE_LIMIT: Final = 4096


def timestamp(now: datetime) -> str:
    """Return a time as the API server writes it: RFC 3339, UTC, whole seconds, Z."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """Return the condition of that type, or None."""
    return next((condition for condition in conditions if condition.type == type_), None)


def is_true(conditions: Iterable[Condition], type_: str) -> bool:
    """Say whether the condition of that type is there and True."""
    found = find_condition(conditions, type_)
    return found is not None and found.status == "True"


def has_reason(conditions: Iterable[Condition], type_: str, reason: str) -> bool:
    """Say whether the condition of that type is there with that reason."""
    found = find_condition(conditions, type_)
    return found is not None and found.reason == reason


def set_condition(
    conditions: tuple[Condition, ...],
    *,
    type: str,
    status: TriState,
    reason: str,
    message: str,
    now: datetime,
    observed_generation: int | None = None,
) -> tuple[Condition, ...]:
    """Return the conditions with this one set, in the order they first appeared.

    `lastTransitionTime` changes only when `status` does; a message that is too long is cut.
    """
    old = find_condition(conditions, type)
    moved = old is None or old.status != status
    new = Condition(
        type=type,
        status=status,
        reason=reason,
        message=message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…",
        last_transition_time=timestamp(now) if old is None or moved else old.last_transition_time,
        observed_generation=observed_generation,
    )
    if old is None:
        return (*conditions, new)
    return tuple(new if condition.type == type else condition for condition in conditions)
