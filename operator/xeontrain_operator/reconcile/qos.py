"""Why a pod is not Guaranteed: which container keeps it from being so, and who brought that about.

The rule (Kubernetes, "Pod Quality of Service Classes"): each container, those that only start included, has
limits of CPU and memory, and requests equal to them. Our templates keep it, so that somebody else broke it
on the way from the StatefulSet to the pod, or the job itself in `podTemplate.containers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from xeontrain_operator.api.v1alpha1 import cpu_millis, memory_bytes
from xeontrain_operator.constants import ANNOTATION_LIMIT_RANGER
from xeontrain_operator.reconcile.observed import Document
from xeontrain_operator.reconcile.text import quote

MOST_NAMED: Final = 3
_READERS: Final = {"cpu": cpu_millis, "memory": memory_bytes}


def is_shared(pod: Document) -> bool:
    """Whether the API server classes the pod as anything but Guaranteed: the kubelet then grants it no CPUs
    of its own. Known from the pod's first moment, before it has a node."""
    return (pod.get("status") or {}).get("qosClass") not in (None, "Guaranteed")


def explain_shared(pod: Document, *, stateful_set: Document | None) -> str:
    """Sentences: the containers that keep the pod from being Guaranteed, who is to blame, and the remedy.

    `stateful_set`: the set that made the pod; where it is gone, nobody is blamed.
    """
    template = _template_of(stateful_set)
    filled_in = (pod["metadata"].get("annotations") or {}).get(ANNOTATION_LIMIT_RANGER, "")
    faults = [
        _blame(container, fault, template=template, filled_in=filled_in)
        for container in _containers(pod.get("spec") or {})
        if (fault := _fault(container))
    ]
    more = f" So are {len(faults) - MOST_NAMED} more containers." if len(faults) > MOST_NAMED else ""
    unknown = "Something changes its resources (a LimitRange, a sidecar injector)."
    return (" ".join(faults[:MOST_NAMED]) or unknown) + more


def _blame(
    container: Document, fault: str, *, template: Mapping[str, Document] | None, filled_in: str
) -> str:
    name = quote(container.get("name"))
    if template is None:
        return f"Container {name} {fault}."
    planned = template.get(str(container.get("name")))
    if planned is None:
        return (
            f"Container {name}, which the job does not have, {fault}: something adds it (a sidecar injector, "
            "an admission policy). Exempt these pods from that, or have it set limits equal to its requests."
        )
    if f"container {container.get('name')}" in filled_in:
        return (
            f"Container {name} {fault}, as a LimitRange of this namespace fills in. Write limits of cpu and "
            f"memory for it in spec.podTemplate.containers, or change the LimitRange."
        )
    if _resources(planned) == _resources(container):
        return (
            f"Container {name} {fault}. Write resources.limits of cpu and memory for it in "
            "spec.podTemplate.containers."
        )
    return (
        f"Container {name} {fault}: something has changed what the job asks for it (an admission policy, a "
        "VerticalPodAutoscaler). Exempt these pods from that."
    )


def _fault(container: Document) -> str | None:
    """What is wrong with a container's resources, as the end of a sentence; None where nothing is."""
    resources = _resources(container)
    for name in _READERS:
        request, limit = resources["requests"].get(name), resources["limits"].get(name)
        if limit is None:
            return f"has no limit of {name}"
        if not _is_same(name, request, limit):
            return f"asks for {quote(request)} {name} and has a limit of {quote(limit)}"
    return None


def _is_same(name: str, one: object, other: object) -> bool:
    try:
        return one == other or _READERS[name](str(one)) == _READERS[name](str(other))
    except ValueError:
        return False


def _resources(container: Document) -> dict[str, dict[str, Any]]:
    """Requests and limits; a request that is not written is the limit, as the API server has it."""
    resources = container.get("resources") or {}
    limits = dict(resources.get("limits") or {})
    return {"limits": limits, "requests": limits | dict(resources.get("requests") or {})}


def _template_of(stateful_set: Document | None) -> dict[str, Document] | None:
    if stateful_set is None:
        return None
    template = ((stateful_set.get("spec") or {}).get("template") or {}).get("spec") or {}
    return {str(container.get("name")): container for container in _containers(template)}


def _containers(spec: Mapping[str, Any]) -> list[Document]:
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
