"""Whole jobs to start from, and edits by path, so that a case shows only what it is about."""

from __future__ import annotations

import copy
from typing import Any

Job = dict[str, Any]

REMOVED = object()
"""As an edit's value: the field goes."""

TRAINING: Job = {
    "apiVersion": "xeontrain.dev/v1alpha1",
    "kind": "XeonTrainJob",
    "metadata": {"name": "case"},
    "spec": {
        "resources": {"cpu": 8, "memory": "16Gi"},
        "training": {
            "task": "text-classification",
            "model": "sentence-transformers/all-MiniLM-L6-v2",
            "dataset": {"files": {"train": ["/data/train-*.csv.gz"]}},
        },
    },
}

COMMAND: Job = {
    "apiVersion": "xeontrain.dev/v1alpha1",
    "kind": "XeonTrainJob",
    "metadata": {"name": "case"},
    "spec": {
        "resources": {"cpu": 2, "memory": "4Gi"},
        "command": ["python3", "train.py"],
    },
}


def edited(base: Job, edits: dict[str, Any]) -> Job:
    """Return a copy of a job with fields set or REMOVED, each by its dotted path."""
    job = copy.deepcopy(base)
    for path, value in edits.items():
        *parents, last = path.split(".")
        place = job
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is REMOVED:
            place.pop(last, None)
        else:
            place[last] = copy.deepcopy(value)
    return job
