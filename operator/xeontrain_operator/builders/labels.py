"""Labels, selectors and owner references: how children are found and whose they are."""

from __future__ import annotations

from typing import Any

from xeontrain_operator.api.v1alpha1 import Metadata
from xeontrain_operator.constants import (
    API_VERSION,
    KIND,
    LABEL_JOB_NAME,
    LABEL_JOB_UID,
    LABEL_MANAGED_BY,
    MANAGED_BY,
)


def selector_labels(job: Metadata) -> dict[str, str]:
    """What Service, NetworkPolicy and StatefulSet select by: the UID alone, because the name comes back
    with a job made again while the pods of the old one are still terminating."""
    return {LABEL_JOB_UID: job.uid}


def child_labels(job: Metadata) -> dict[str, str]:
    """Labels of every child, pods included."""
    return {LABEL_MANAGED_BY: MANAGED_BY, LABEL_JOB_NAME: job.name, **selector_labels(job)}


def owner_reference(job: Metadata) -> dict[str, Any]:
    """The reference that makes the job a child's controller and, by garbage collection, its life span."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def child_metadata(job: Metadata, *, name: str | None = None) -> dict[str, Any]:
    """`metadata` of a child; `name` defaults to the job's."""
    return {
        "name": name or job.name,
        "namespace": job.namespace,
        "labels": child_labels(job),
        "ownerReferences": [owner_reference(job)],
    }
