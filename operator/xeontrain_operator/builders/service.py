"""The headless Service that gives each worker its DNS name."""

from __future__ import annotations

from typing import Any

from xeontrain_operator.api.v1alpha1 import XeonTrainJob
from xeontrain_operator.builders.labels import child_metadata, selector_labels
from xeontrain_operator.constants import LAUNCHER_PORT, PORT_NAME


def build_service(job: XeonTrainJob) -> dict[str, Any]:
    """Names are published before pods are ready: workers must find worker 0 to become ready at all."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child_metadata(job.metadata),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector_labels(job.metadata),
            "ports": [
                {"name": PORT_NAME, "port": LAUNCHER_PORT, "targetPort": PORT_NAME, "protocol": "TCP"},
            ],
        },
    }
