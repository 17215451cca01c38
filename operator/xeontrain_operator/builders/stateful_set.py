"""The StatefulSet of a job's workers."""

from __future__ import annotations

from typing import Any

from xeontrain_operator.api.v1alpha1 import XeonTrainJob
from xeontrain_operator.builders.hashing import content_hash
from xeontrain_operator.builders.labels import child_metadata, selector_labels
from xeontrain_operator.builders.pod import build_pod_template
from xeontrain_operator.builders.volumes import build_claim_templates
from xeontrain_operator.constants import ANNOTATION_TEMPLATE_HASH
from xeontrain_operator.settings import Settings


def build_stateful_set(job: XeonTrainJob, *, settings: Settings, failures_counted: int = 0) -> dict[str, Any]:
    """All that is decided once for a run: image, pool, contract version and everything the user wrote.

    Workers start together (OrderedReady would wait for a worker that waits for the others), and a pod is
    never replaced for a change of the template. Claims outlive the set: a job's model must.
    """
    template = build_pod_template(job, settings=settings, failures_counted=failures_counted)
    spec: dict[str, Any] = {
        "replicas": job.spec.workers,
        "serviceName": job.metadata.name,
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "OnDelete"},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "revisionHistoryLimit": 1,
        "selector": {"matchLabels": selector_labels(job.metadata)},
        "template": template,
    }
    claims = build_claim_templates(job)
    if claims:
        spec["volumeClaimTemplates"] = claims
    metadata = child_metadata(job.metadata)
    metadata["annotations"] = {ANNOTATION_TEMPLATE_HASH: content_hash(template)}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}
