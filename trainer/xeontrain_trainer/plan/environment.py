"""The environment of each rank: threads, communication libraries, allocator.

A value that is already in the environment wins, whatever we would set (own_values.py tells people). Sources:
oneCCL's environment variables, libfabric's fi_tcp(7), mallopt(3), Intel's and GNU's OpenMP runtimes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Optional

from ..machine import split_preload
from .layout import Slice
from .model import PlanRequest

# glibc gives large blocks back to the kernel at each free; page faults then cost a sixth of a training step.
GLIBC_MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
    "MALLOC_TOP_PAD_": "67108864",
}
OTHER_ALLOCATORS = ("tcmalloc", "jemalloc", "mimalloc")
# Digits of a believable count of threads.
LONGEST_COUNT = 3
# One value in the pod's environment cannot be right for several ranks.
NEVER_THE_USERS = frozenset({"CCL_LOCAL_RANK", "CCL_LOCAL_SIZE"})


def rank_environment(
    request: PlanRequest, *, slices: Sequence[Slice], local_rank: int, threads: int, bound: bool
) -> dict[str, str]:
    """What the plan wants in one rank, before the user's values."""
    environment = {"OMP_NUM_THREADS": str(threads)}
    environment.update(_ccl(request, slices=slices, local_rank=local_rank, bound=bound))
    environment.update(_network(request))
    environment.update(_preload(request))
    if bound and any("libiomp5" in name for name in _preloaded(request, environment)):
        # Only Intel's runtime reads these; compact binding outside a pinned set would pin to a neighbour's
        # cores.
        environment.update({"KMP_AFFINITY": "granularity=fine,compact,1,0", "KMP_BLOCKTIME": "1"})
    return environment


def comm_threads(request: PlanRequest) -> Optional[int]:
    """Communication threads a rank: the user's CCL_WORKER_COUNT, the job's field, None for Auto."""
    return whole_count(request.environ.get("CCL_WORKER_COUNT", "")) or request.ccl_workers_per_rank


def whole_count(text: str) -> Optional[int]:
    """The number of threads that a variable says, None for what is no number or more than a machine runs."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST_COUNT else None


def effective(request: PlanRequest, *, wanted: Mapping[str, str]) -> dict[str, str]:
    """The wanted values with the user's own in their place."""
    return {
        name: value if name in NEVER_THE_USERS else request.environ.get(name, value)
        for name, value in wanted.items()
    }


def _ccl(request: PlanRequest, *, slices: Sequence[Slice], local_rank: int, bound: bool) -> dict[str, str]:
    count = comm_threads(request) or max(1, len(slices[0].comm))
    if bound:
        affinity = [cpu for part in slices for cpu in _worker_cpus(part, count=count)]
    else:
        affinity = _scattered(slices[0].compute, number=count * len(slices), worker=request.worker)
    environment = {
        "CCL_WORKER_COUNT": str(count),
        "CCL_WORKER_AFFINITY": ",".join(map(str, affinity)),
        "CCL_LOCAL_RANK": str(local_rank),
        "CCL_LOCAL_SIZE": str(len(slices)),
        "CCL_PROCESS_LAUNCHER": "none",
        "CCL_ATL_TRANSPORT": "ofi",
        "FI_PROVIDER": "tcp",
    }
    if not slices[0].comm:
        # A worker that spins on a compute CPU makes every small call wait for a scheduler's tick (8 ms).
        environment["CCL_YIELD"] = "sched_yield"
    return environment


def _worker_cpus(part: Slice, *, count: int) -> list[int]:
    """Exactly `count` CPUs: those of communication, else the last compute CPUs, in turn where they are too
    few.

    oneCCL refuses a list of any other length, and its own `auto` counts the host's CPUs from the end.
    """
    pool = (part.comm or part.compute[-count:])[-count:]
    return [pool[index % len(pool)] for index in range(count)]


def _scattered(cpus: Sequence[int], *, number: int, worker: int) -> list[int]:
    """So many CPUs of a shared pool, from the last one down, others for each worker of the job: oneCCL must
    be given CPUs, and pods of one node must not all be given the same."""
    return [cpus[-1 - (worker * number + index) % len(cpus)] for index in range(number)]


def _network(request: PlanRequest) -> dict[str, str]:
    if not request.interface:
        return {}
    return dict.fromkeys(("FI_TCP_IFACE", "CCL_KVS_IFACE", "GLOO_SOCKET_IFNAME"), request.interface)


def _preload(request: PlanRequest) -> dict[str, str]:
    """The allocator and OpenMP runtime that are there; without an allocator, glibc's is told to keep its
    memory."""
    paths = [path for path in (request.intel_openmp, request.tcmalloc) if path]
    environment = {"LD_PRELOAD": ":".join(paths)} if paths else {}
    names = _preloaded(request, environment)
    if not any(allocator in name for name in names for allocator in OTHER_ALLOCATORS):
        environment.update(GLIBC_MALLOC)
    return environment


def _preloaded(request: PlanRequest, wanted: Mapping[str, str]) -> list[str]:
    """File names of the libraries that are really loaded first: the user's list in place of ours, without
    what is not there."""
    paths = split_preload(request.environ.get("LD_PRELOAD", wanted.get("LD_PRELOAD", "")))
    return [os.path.basename(path) for path in paths if path not in request.missing_preloads]
