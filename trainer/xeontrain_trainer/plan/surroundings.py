"""What a plan needs to know of the pod besides its CPUs: network interfaces, libraries to be preloaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional, TypedDict

from ..machine import (
    INTEL_OPENMP_NAMES,
    TCMALLOC_NAMES,
    find_interface,
    find_library,
    interface_names,
    missing_preloads,
)


class Surroundings(TypedDict):
    """The fields of a `PlanRequest` that are looked for, not asked for."""

    interface: Optional[str]
    pod_interface: Optional[str]
    interfaces: Optional[tuple[str, ...]]
    missing_preloads: tuple[str, ...]
    tcmalloc: Optional[str]
    intel_openmp: Optional[str]


def look_around(
    environ: Mapping[str, str], *, address: str, interface: Optional[str], ipex: bool, in_pod: bool = True
) -> Surroundings:
    """What is there at this moment.

    `address`: the pod's, empty where it has none. `interface`: the one that the job names. `ipex`: the job
    asks for Intel's extension, whose OpenMP runtime is preloaded with it. Libraries belong to the image, so
    they are looked for here in any case; the network is the pod's only `in_pod`.
    """
    own = find_interface(address)
    return {
        "interface": interface or own,
        "pod_interface": own if in_pod else None,
        "interfaces": interface_names() if in_pod else None,
        "missing_preloads": missing_preloads(environ),
        "tcmalloc": find_library(TCMALLOC_NAMES, environ=environ),
        "intel_openmp": find_library(INTEL_OPENMP_NAMES, environ=environ) if ipex else None,
    }
