"""Values that the user set in the environment: they win, and people are told what that means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..machine import format_cpus, parse_cpus
from .environment import effective, whole_count
from .layout import PlanError
from .model import PlanRequest

LOOPBACK = "lo"
INTERFACE_NAMES = ("GLOO_SOCKET_IFNAME", "FI_TCP_IFACE")


def check_request(request: PlanRequest, *, cpus: Sequence[int]) -> None:
    """Raises PlanError for what would end in a hang or in an error that names no cause."""
    interface = request.interface
    if interface and request.interfaces is not None and interface not in request.interfaces:
        raise PlanError(
            f"spec.distributed.interface is {interface}, but the pod has {_listed(request.interfaces)}: "
            "name one of these, or leave the field out and the interface of the pod's address is taken"
        )
    if interface == LOOPBACK and _leaves_the_pod(request):
        raise PlanError(
            f"spec.distributed.interface is {LOOPBACK}, over which the job's {request.workers} workers "
            f"cannot reach each other: name {request.pod_interface}, or leave the field out"
        )
    affinity = _affinity_trouble(request, cpus=cpus)
    if affinity and request.backend == "CCL":
        raise PlanError(affinity)


def _leaves_the_pod(request: PlanRequest) -> bool:
    """Whether ranks talk to other pods. Workers of `xeontrain run` share one machine and its loopback."""
    return request.workers > 1 and request.pod_interface not in (None, LOOPBACK)


def own_value_warnings(
    request: PlanRequest, *, wanted: Mapping[str, str], cpus: Sequence[int], ranks: int
) -> list[str]:
    """Sentences about values that the user set and that differ from the plan's, or cannot work."""
    own = effective(request, wanted=wanted)
    warnings = [
        f"{name}={own[name]} is set in the environment and wins over {value}"
        for name, value in sorted(wanted.items())
        if own[name] != value
    ]
    trouble = _affinity_trouble(request, cpus=cpus) or _length_trouble(own, ranks=ranks)
    return [*warnings, *([trouble] if trouble else []), *_preload_trouble(request), *_interfaces(request)]


def _affinity_trouble(request: PlanRequest, *, cpus: Sequence[int]) -> str:
    """oneCCL pins its threads to CPUs that it cannot have, and dies of it; empty where it can."""
    own = request.environ.get("CCL_WORKER_AFFINITY", "")
    if own.strip() == "auto":
        return (
            "CCL_WORKER_AFFINITY=auto means the last CPUs of the host, whatever the pod was granted: oneCCL "
            "will not start where they are others'. Remove it from spec.env and the plan fills it in"
        )
    outside = set(_cpu_list(own)) - set(cpus)
    if not outside:
        return ""
    return (
        f"CCL_WORKER_AFFINITY names CPUs that the pod does not have ({format_cpus(outside)}): "
        "oneCCL will not start. Remove it from spec.env and the plan fills it in"
    )


def _length_trouble(own: Mapping[str, str], *, ranks: int) -> str:
    """oneCCL takes a list of exactly one entry for each worker thread of each local rank."""
    affinity, count = own["CCL_WORKER_AFFINITY"], whole_count(own["CCL_WORKER_COUNT"])
    if count is None:
        return (
            f"CCL_WORKER_COUNT={own['CCL_WORKER_COUNT']} is no number of threads: oneCCL will not start. "
            "Remove it from spec.env and the plan fills it in"
        )
    if not affinity.replace(",", "").replace("-", "").isdigit():
        return ""
    entries = sum(_width(part) for part in affinity.split(","))
    if entries == ranks * count:
        return ""
    return (
        f"CCL_WORKER_AFFINITY={affinity} has {entries} entries, but {ranks} x CCL_WORKER_COUNT={count} are "
        "needed: oneCCL will not start. Remove it from spec.env and the plan fills it in"
    )


def _width(part: str) -> int:
    """CPUs of `4` or `4-7`. oneCCL counts repeated ones too."""
    return len(_cpu_list(part))


def _cpu_list(text: str) -> tuple[int, ...]:
    try:
        return parse_cpus(text)
    except ValueError:
        return ()


def _preload_trouble(request: PlanRequest) -> list[str]:
    return [
        f"LD_PRELOAD names {path}, which is not there: it is ignored, with a line in each process. "
        "Correct spec.env (LD_PRELOAD) or leave it out"
        for path in request.missing_preloads
    ]


def _interfaces(request: PlanRequest) -> list[str]:
    """Interfaces of the user's own choice that are not there. Gloo takes several, with commas between."""
    present = request.interfaces
    if present is None:
        return []
    if _leaves_the_pod(request):
        present = tuple(name for name in present if name != LOOPBACK)
    return [
        f"{name}={request.environ[name]} names {one}, but the pod has {_listed(present)}: "
        f"ranks will not find each other. Correct spec.env ({name}) or leave it out"
        for name in INTERFACE_NAMES
        for one in request.environ.get(name, "").split(",")
        if one and one not in present
    ]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
