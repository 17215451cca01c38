"""The kinds of objects that the operator touches, and where the API serves them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from xeontrain_operator import constants

Object = dict[str, Any]
"""A Kubernetes object as JSON gives it: typed models would drop fields that they do not know."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One resource of the API."""

    group: str
    version: str
    kind: str
    plural: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, *, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """The URL path; `namespace` None: of all namespaces, or of a kind that has none."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root, *(("namespaces", namespace) if namespace else ()), self.plural, name, subresource]
        return "/".join(part for part in parts if part)


JOB: Final = Kind(constants.GROUP, constants.VERSION, constants.KIND, constants.PLURAL)
STATEFUL_SET: Final = Kind("apps", "v1", "StatefulSet", "statefulsets")
SERVICE: Final = Kind("", "v1", "Service", "services")
CONFIG_MAP: Final = Kind("", "v1", "ConfigMap", "configmaps")
NETWORK_POLICY: Final = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
POD: Final = Kind("", "v1", "Pod", "pods")
CLAIM: Final = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
NODE: Final = Kind("", "v1", "Node", "nodes")
EVENT: Final = Kind("", "v1", "Event", "events")

ALL: Final = (JOB, STATEFUL_SET, SERVICE, CONFIG_MAP, NETWORK_POLICY, POD, CLAIM, NODE, EVENT)

# What the operator makes, or what is made by what it makes: watched by label, kept in the cache.
CHILDREN: Final = (STATEFUL_SET, SERVICE, CONFIG_MAP, NETWORK_POLICY, POD)


def of(manifest: Object) -> Kind:
    """The kind of a manifest. Raises KeyError for one that the operator has no business with."""
    return _BY_KIND[(manifest["apiVersion"], manifest["kind"])]


def named(kind: str) -> Kind:
    """The kind of that name. Raises KeyError for one that the operator has no business with."""
    return _BY_NAME[kind]


_BY_NAME = {kind.kind: kind for kind in ALL}
_BY_KIND = {(kind.api_version, kind.kind): kind for kind in ALL}
