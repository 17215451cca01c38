"""Exactly what the operator asks of the API server: the chart's role is held equal to this by a test."""

from __future__ import annotations

from typing import Final, NamedTuple


class Permission(NamedTuple):
    """One rule of a role."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str


# In each namespace that is served (a ClusterRole where all are).
PERMISSIONS: Final = (
    Permission(
        "xeontrain.dev", "xeontrainjobs", ("get", "list", "watch", "delete"), "jobs; their time to live"
    ),
    Permission("xeontrain.dev", "xeontrainjobs/status", ("update",), "phase, conditions, progress"),
    # An owner reference with blockOwnerDeletion wants this where that admission plugin is on (OpenShift).
    Permission("xeontrain.dev", "xeontrainjobs/finalizers", ("update",), "owner references"),
    Permission("apps", "statefulsets", ("get", "list", "watch", "create", "patch", "delete"), "the workers"),
    Permission("", "services", ("get", "list", "watch", "create", "delete"), "names of the workers"),
    Permission(
        "", "configmaps", ("get", "list", "watch", "create", "patch", "delete"), "training document, kept log"
    ),
    Permission(
        "networking.k8s.io",
        "networkpolicies",
        ("get", "list", "watch", "create", "delete"),
        "the fence around the launchers' port",
    ),
    Permission("", "pods", ("get", "list", "watch", "delete"), "workers' state; pods that must be replaced"),
    Permission("", "pods/log", ("get",), "the log of a launcher that does not answer"),
    Permission("", "persistentvolumeclaims", ("get", "list"), "why a worker waits for its volume"),
    Permission("", "events", ("list", "create"), "why a worker waits; the job's own story"),
)

# Of the cluster, whichever namespaces are served.
CLUSTER_PERMISSIONS: Final = (
    Permission("", "nodes", ("get",), "whether the node of a pod that does not end is lost"),
)
