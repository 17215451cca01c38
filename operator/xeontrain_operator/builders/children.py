"""All children of a job, in the order in which they are made."""

from __future__ import annotations

from typing import Any

from xeontrain_operator.api.v1alpha1 import XeonTrainJob
from xeontrain_operator.builders.config_map import build_config_map
from xeontrain_operator.builders.network_policy import build_network_policy
from xeontrain_operator.builders.service import build_service
from xeontrain_operator.builders.stateful_set import build_stateful_set
from xeontrain_operator.settings import Settings


def child_kinds(job: XeonTrainJob, *, settings: Settings) -> set[str]:
    """Kinds of the children that `build_children` makes, without making them."""
    optional = {
        "ConfigMap": job.spec.training is not None,
        "NetworkPolicy": settings.network_policy.enabled,
    }
    return {"Service", "StatefulSet", *(kind for kind, is_made in optional.items() if is_made)}


def build_children(
    job: XeonTrainJob, *, settings: Settings, failures_counted: int = 0
) -> list[dict[str, Any]]:
    """Service first and the StatefulSet last, so that no pod starts before its name, its fence and its
    training document are there."""
    children = [
        build_service(job),
        build_config_map(job),
        build_network_policy(job, settings=settings),
        build_stateful_set(job, settings=settings, failures_counted=failures_counted),
    ]
    return [child for child in children if child is not None]
