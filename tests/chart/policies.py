"""What must hold for every object that the chart renders. Pure: objects in, complaints out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]

COMMON_LABELS = (
    "helm.sh/chart",
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/component",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/managed-by",
)
CLUSTER_SCOPED = frozenset({"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"})
LABEL_VALUE = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
VOLUMES_OF_THE_RESTRICTED_STANDARD = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)


def pod_specs(item: Object) -> Iterator[Object]:
    """The pod specs inside an object: none, or one."""
    if item["kind"] == "Pod":
        yield item["spec"]
    elif item["kind"] == "Deployment":
        yield item["spec"]["template"]["spec"]


def containers(pod: Object) -> Iterator[Object]:
    """All containers of a pod spec."""
    yield from pod.get("initContainers", [])
    yield from pod["containers"]


def metadata_problems(item: Object) -> Iterator[str]:
    """Names fit, the common labels are there, and what is namespaced says where."""
    metadata = item["metadata"]
    where = f"{item['kind']}/{metadata['name']}"
    if len(metadata["name"]) > 63:
        yield f"{where}: the name is longer than 63 characters"
    for label in COMMON_LABELS:
        if label not in metadata.get("labels", {}):
            yield f"{where}: label {label} is missing"
    for key, value in metadata.get("labels", {}).items():
        if not isinstance(value, str) or not LABEL_VALUE.match(value):
            yield f"{where}: label {key}={value!r} is no label value"
    if ("namespace" in metadata) == (item["kind"] in CLUSTER_SCOPED):
        yield f"{where}: namespace {metadata.get('namespace')!r} does not fit the kind"


def restricted_problems(item: Object) -> Iterator[str]:
    """The restricted Pod Security Standard, and more: a read-only root and bounded memory."""
    for pod in pod_specs(item):
        yield from (f"{item['kind']}: {problem}" for problem in _pod_problems(pod))
        for container in containers(pod):
            yield from (f"{item['kind']}/{container['name']}: {p}" for p in _container_problems(container))


def _pod_problems(pod: Object) -> Iterator[str]:
    context = pod.get("securityContext", {})
    if context.get("runAsNonRoot") is not True or context.get("runAsUser") == 0:
        yield "may run as root"
    if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "no seccomp profile"
    for host in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(host):
            yield f"uses {host}"
    for volume in pod.get("volumes", []):
        if not set(volume) - {"name"} <= VOLUMES_OF_THE_RESTRICTED_STANDARD:
            yield f"volume {volume['name']} is of a kind that is not allowed"


def _container_problems(container: Object) -> Iterator[str]:
    context = container.get("securityContext", {})
    if context.get("allowPrivilegeEscalation") is not False:
        yield "may escalate privileges"
    if context.get("capabilities") != {"drop": ["ALL"]}:
        yield "keeps capabilities"
    if context.get("readOnlyRootFilesystem") is not True:
        yield "may write to its root"
    resources = container.get("resources", {})
    if not {"cpu", "memory"} <= set(resources.get("requests", {})):
        yield "requests no CPU or memory"
    if "memory" not in resources.get("limits", {}):
        yield "has no memory limit"


def rbac_problems(item: Object) -> Iterator[str]:
    """No wildcard, no right on secrets, none to widen its own rights."""
    for rule in item.get("rules", []) if item["kind"] in ("Role", "ClusterRole") else []:
        named = {word for words in rule.values() for word in words}
        for word in sorted(
            named & {"*", "secrets", "escalate", "bind", "impersonate", "roles", "clusterroles"}
        ):
            yield f"{item['kind']}/{item['metadata']['name']}: grants {word}"


def port_problems(item: Object) -> Iterator[str]:
    """Every probe names a port that its container has."""
    for pod in pod_specs(item):
        for container in containers(pod):
            names = {port["name"] for port in container.get("ports", [])}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                port = container.get(probe, {}).get("httpGet", {}).get("port")
                if port is not None and port not in names:
                    yield f"{item['kind']}/{container['name']}: {probe} asks an undeclared port {port!r}"


def selects(selector: dict[str, str], labels: dict[str, str]) -> bool:
    """Whether an equality selector takes an object with these labels."""
    return selector.items() <= labels.items()
