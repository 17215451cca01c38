"""Security contexts that meet the restricted Pod Security Standard; a job's own are merged over them."""

from __future__ import annotations

from typing import Any

from xeontrain_operator.api.v1alpha1 import XeonTrainJob
from xeontrain_operator.builders.merge import deep_merge

USER_ID = 1000
"""User and group of the trainer image. Fixed, so that storage written by one pod is readable by the next."""


def pod_security_context(job: XeonTrainJob) -> dict[str, Any]:
    """fsGroup only where the volume's root does not have it yet: a recursive chown of a large claim takes
    minutes at every start."""
    ours = {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "fsGroup": USER_ID,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return deep_merge(ours, job.spec.pod_template.security_context or {})


def trainer_security_context(job: XeonTrainJob) -> dict[str, Any]:
    """Of the trainer container: nothing of its image can be changed at run time."""
    ours = {**_restricted(), "readOnlyRootFilesystem": True}
    return deep_merge(ours, job.spec.pod_template.container_security_context or {})


def extra_security_context(container: dict[str, Any]) -> dict[str, Any]:
    """Of a container that the user brings: what the standard asks for, unless it says otherwise."""
    return deep_merge(_restricted(), container.get("securityContext") or {})


def _restricted() -> dict[str, Any]:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
