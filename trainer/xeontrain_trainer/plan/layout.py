"""Cuts the granted cores into equal slices, one a rank, and finds CPUs for communication."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Optional

from ..machine import Cpu, Machine

Core = tuple[Cpu, ...]

# A slice gives up whole cores for communication only from this size: below, a core is worth more to the
# arithmetic than to the network.
CORES_TO_SPARE_ONE = 8
# One communication thread feeds this many cores; more than four a rank have never paid.
CORES_PER_COMM_THREAD = 8
MAX_COMM_THREADS = 4


class PlanError(Exception):
    """The request cannot be met on this machine: a user error, in a sentence that says what to change."""


@dataclass(frozen=True)
class Slice:
    """The cores of one rank and what they are for. `compute`: one CPU a core. `comm`: empty where none is
    spare."""

    compute: tuple[int, ...]
    comm: tuple[int, ...]
    nodes: tuple[int, ...]


def usable_cpus(machine: Machine, *, cpu_limit_millis: Optional[int]) -> int:
    """How many CPUs' worth of time the pod has: the granted set, cut by quota and limit, whole CPUs, at
    least 1."""
    bounds = [float(len(machine.cpus))]
    if machine.quota_cpus is not None:
        bounds.append(machine.quota_cpus)
    if cpu_limit_millis:
        bounds.append(cpu_limit_millis / 1000)
    return max(1, math.floor(min(bounds) + 1e-6))


def is_bound(machine: Machine, *, cpu_limit_millis: Optional[int], pinning: str) -> bool:
    """Whether ranks are pinned: asked for, and the granted set is no larger than what the pod may use."""
    return pinning != "Disabled" and usable_cpus(machine, cpu_limit_millis=cpu_limit_millis) >= len(
        machine.cpus
    )


def largest_ranks(machine: Machine, *, cpu_limit_millis: Optional[int] = None) -> int:
    """The most ranks this worker can hold: one for each physical core that quota and limit allow."""
    return min(len(machine.cores), usable_cpus(machine, cpu_limit_millis=cpu_limit_millis))


def auto_ranks(
    machine: Machine, *, cpu_limit_millis: Optional[int] = None, pinning: str = "Preferred"
) -> int:
    """Ranks that `Auto` wants here: one for each NUMA node with at least half of the largest node's cores.

    1 where ranks are not pinned, since threads that wander share no node. This is the number that a worker
    reports to the coordinator where `ranksPerWorker` is Auto.
    """
    if not is_bound(machine, cpu_limit_millis=cpu_limit_millis, pinning=pinning):
        return 1
    return len(_full_nodes(_cores_by_node(machine)))


def agree_ranks(reported: Iterable[int], *, workers: int, global_batch_size: Optional[int]) -> int:
    """Ranks a worker for all workers: the largest r that no worker is too small for and for which workers x r
    divides the global batch (any r where there is no batch); 1 where none does."""
    smallest = min(reported, default=1)
    if global_batch_size is None:
        return max(1, smallest)
    fitting = (r for r in range(smallest, 0, -1) if global_batch_size % (workers * r) == 0)
    return next(fitting, 1)


def cut(
    machine: Machine, *, ranks: int, comm_threads: Optional[int], communicates: bool
) -> tuple[tuple[Slice, ...], tuple[Core, ...]]:
    """One slice a rank, ordered by NUMA node, and the cores left over.

    `comm_threads`: communication threads a rank, None for Auto. Raises PlanError where a slice would be
    empty.
    """
    by_node = _cores_by_node(machine)
    total = len(machine.cores)
    if ranks > total:
        raise PlanError(too_many_ranks(ranks, cores=total))
    full = _full_nodes(by_node)
    if ranks < len(full):
        parts = _cut_across([core for node in full for core in by_node[node]], ranks=ranks)
    else:
        parts = _cut_inside(by_node, ranks=ranks)
    used = {core[0].number for part in parts for core in part}
    left = tuple(core for core in machine.cores if core[0].number not in used)
    wanted = comm_threads or auto_comm_threads(len(parts[0])) if communicates else 0
    way = _comm_way(parts, wanted=wanted)
    return tuple(_slice(part, wanted=wanted, way=way) for part in parts), left


def too_many_ranks(ranks: int, *, cores: int) -> str:
    """The sentence for more ranks than cores."""
    return (
        f"ranksPerWorker is {ranks}, but the pod's CPUs are {cores} physical core{'s' * (cores != 1)}: "
        f"each rank needs one. Set spec.ranksPerWorker to at most {cores}, or raise spec.resources.cpu"
    )


def auto_comm_threads(cores: int) -> int:
    """Communication threads for a slice of so many cores."""
    return max(1, min(MAX_COMM_THREADS, cores // CORES_PER_COMM_THREAD))


def _cores_by_node(machine: Machine) -> dict[int, list[Core]]:
    by_node: dict[int, list[Core]] = {}
    for core in machine.cores:
        by_node.setdefault(core[0].node, []).append(core)
    return by_node


def _full_nodes(by_node: dict[int, list[Core]]) -> list[int]:
    """Nodes with at least half of the largest share: a node with a stray core is no home for a rank."""
    largest = max(len(cores) for cores in by_node.values())
    return [node for node, cores in by_node.items() if 2 * len(cores) >= largest]


def _cut_across(cores: Sequence[Core], *, ranks: int) -> list[Sequence[Core]]:
    """Fewer ranks than nodes: neighbouring nodes are joined."""
    size = len(cores) // ranks
    return [cores[rank * size : (rank + 1) * size] for rank in range(ranks)]


def _cut_inside(by_node: dict[int, list[Core]], *, ranks: int) -> list[Sequence[Core]]:
    """The largest equal slices of which each lies in one node, spread over the nodes that have room."""
    size = max(len(cores) for cores in by_node.values())
    while sum(len(cores) // size for cores in by_node.values()) < ranks:
        size -= 1
    counts = dict.fromkeys(by_node, 0)
    room = {node: len(cores) // size for node, cores in by_node.items()}
    for _ in range(ranks):
        open_nodes = [node for node in by_node if counts[node] < room[node]]
        counts[min(open_nodes, key=lambda node: (counts[node], counts[node] - room[node]))] += 1
    return [
        by_node[node][index * size : (index + 1) * size] for node in by_node for index in range(counts[node])
    ]


def _comm_way(parts: Sequence[Sequence[Core]], *, wanted: int) -> str:
    """Where communication threads go, the same for every rank: `siblings`, `cores` or `none`."""
    siblings = min(sum(len(core) - 1 for core in part) for part in parts)
    size = len(parts[0])
    if wanted and siblings >= wanted:
        return "siblings"
    if wanted and size >= CORES_TO_SPARE_ONE and 2 * wanted <= size:
        return "cores"
    return "none"


def _slice(part: Sequence[Core], *, wanted: int, way: str) -> Slice:
    firsts = tuple(core[0].number for core in part)
    nodes = tuple(sorted({core[0].node for core in part}))
    if way == "cores":
        return Slice(compute=firsts[:-wanted], comm=firsts[-wanted:], nodes=nodes)
    spare = [cpu.number for core in part for cpu in core[1:]]
    comm = tuple(spare[-wanted:]) if way == "siblings" else ()
    return Slice(compute=firsts, comm=comm, nodes=nodes)
