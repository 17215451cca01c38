"""The NetworkPolicy: the fence around ports that, like torch's own, ask nobody who they are."""

from __future__ import annotations

from typing import Any

from xeontrain_operator.api.v1alpha1 import XeonTrainJob
from xeontrain_operator.builders.labels import child_metadata, selector_labels
from xeontrain_operator.constants import LAUNCHER_PORT
from xeontrain_operator.settings import Settings

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"


def build_network_policy(job: XeonTrainJob, *, settings: Settings) -> dict[str, Any] | None:
    """Ingress only: the job's own pods on every TCP port (gloo and oneCCL choose theirs), operator and
    metrics collectors on the launcher's. None where the platform team has switched policies off."""
    if not settings.network_policy.enabled:
        return None
    own = {"podSelector": {"matchLabels": selector_labels(job.metadata)}}
    operator = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_NAME_LABEL: settings.namespace}},
        "podSelector": {"matchLabels": dict(settings.pod_labels)},
    }
    readers = [operator, *(dict(peer) for peer in settings.network_policy.metrics_from)]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": child_metadata(job.metadata),
        "spec": {
            "podSelector": {"matchLabels": selector_labels(job.metadata)},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [own], "ports": [{"protocol": "TCP"}]},
                {"from": readers, "ports": [{"protocol": "TCP", "port": LAUNCHER_PORT}]},
            ],
        },
    }
