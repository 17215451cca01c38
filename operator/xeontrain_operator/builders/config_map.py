"""The ConfigMap with the training document that the trainer reads."""

from __future__ import annotations

import json
from typing import Any

from xeontrain_operator.api.v1alpha1 import XeonTrainJob
from xeontrain_operator.builders.labels import child_metadata
from xeontrain_operator.constants import CONTRACT_VERSION, TRAINING_FILE

TRAINING_KEY = TRAINING_FILE.rpartition("/")[2]


def training_document(job: XeonTrainJob) -> dict[str, Any]:
    """The training document of docs/contract.md; the job must have `training`."""
    if job.spec.training is None:
        raise ValueError(f"job {job.metadata.name} has a command, so there is no training document for it")
    return {
        "contract": CONTRACT_VERSION,
        "jobName": job.metadata.name,
        "jobNamespace": job.metadata.namespace,
        "jobUid": job.metadata.uid,
        "training": job.spec.training.to_dict(),
        "checkpoint": job.spec.checkpoint.to_dict(),
    }


def build_config_map(job: XeonTrainJob) -> dict[str, Any] | None:
    """None for a job with a command. Immutable: a replaced pod must read what its peers have read."""
    if job.spec.training is None:
        return None
    text = json.dumps(training_document(job), indent=2, ensure_ascii=False) + "\n"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child_metadata(job.metadata),
        "immutable": True,
        "data": {TRAINING_KEY: text},
    }
