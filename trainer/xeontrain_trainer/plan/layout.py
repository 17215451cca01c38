"""Cuts the granted cores into equal slices, one a rank, and finds CPUs for communication.

What the rules are is in docs/plan.md; why they are so, at each of them here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
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
# Fewer ranks than nodes: a slice may shrink to this share of the largest possible one if then no two ranks
# share a node. A judgement, not a measurement: 3 ranks on 4 equal nodes get a node each (0.75), 2 ranks on 3
# equal nodes share one (0.67).
WORTH_A_NODE_OF_ITS_OWN = 0.75
# What a core of a hybrid machine's slower kind is taken to do in the time of a fast one: half the width of
# vectors at a lower clock. Threads of a rank wait for the slowest, so fast cores alone are better unless they
# are few.
EFFICIENT_CORE_SHARE = 0.4


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
    return len(_full_nodes(_by_node(compute_cores(machine, ranks=1))))


def compute_cores(machine: Machine, *, ranks: int) -> tuple[Core, ...]:
    """The granted cores that compute: of a hybrid machine only the fast ones, where they are enough for the
    ranks and not so few that all cores together do more."""
    fast = tuple(core for core in machine.cores if not core[0].efficient)
    enough = ranks <= len(fast) and len(fast) >= EFFICIENT_CORE_SHARE * len(machine.cores)
    return fast if enough else machine.cores


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
    total = len(machine.cores)
    if ranks > total:
        raise PlanError(too_many_ranks(ranks, cores=total))
    by_node = _by_node(compute_cores(machine, ranks=ranks))
    full = {node: by_node[node] for node in _full_nodes(by_node)}
    parts = _cut_across(full, ranks=ranks) if ranks < len(full) else _cut_inside(by_node, ranks=ranks)
    used = {core[0].number for part in parts for core in part}
    left = tuple(core for core in machine.cores if core[0].number not in used)
    wanted = comm_threads or auto_comm_threads(len(parts[0])) if communicates else 0
    way, number = _comm_way(parts, wanted=wanted)
    return tuple(_slice(part, number=number, way=way) for part in parts), left


def too_many_ranks(ranks: int, *, cores: int) -> str:
    """The sentence for more ranks than cores."""
    return (
        f"ranksPerWorker is {ranks}, but the pod's CPUs are {cores} physical core{'s' * (cores != 1)}: "
        f"each rank needs one. Set spec.ranksPerWorker to at most {cores}, or raise spec.resources.cpu"
    )


def auto_comm_threads(cores: int) -> int:
    """Communication threads for a slice of so many cores."""
    return max(1, min(MAX_COMM_THREADS, cores // CORES_PER_COMM_THREAD))


def _by_node(cores: Iterable[Core]) -> dict[int, list[Core]]:
    """Cores of each NUMA node, nodes of a socket side by side."""
    by_node: dict[int, list[Core]] = {}
    for core in sorted(cores, key=lambda core: (core[0].socket, core[0].node)):
        by_node.setdefault(core[0].node, []).append(core)
    return by_node


def _full_nodes(by_node: Mapping[int, Sequence[Core]]) -> list[int]:
    """Nodes with at least half of the largest share: a node with a stray core is no home for a rank."""
    largest = max(len(cores) for cores in by_node.values())
    return [node for node, cores in by_node.items() if 2 * len(cores) >= largest]


def _cut_across(by_node: Mapping[int, Sequence[Core]], *, ranks: int) -> list[Sequence[Core]]:
    """Fewer ranks than nodes: whole nodes are joined, where the slices do not become much smaller by that;
    else neighbouring ranks share a node."""
    cores = [core for node in by_node.values() for core in node]
    largest = len(cores) // ranks
    nodes = list(by_node.values())
    # Neighbours first: they are of one socket.
    groups = max(_neighbours(nodes, groups=ranks), _fullest(nodes, groups=ranks), key=_smallest)
    size = min(largest, _smallest(groups))
    if size < WORTH_A_NODE_OF_ITS_OWN * largest:
        return [cores[rank * largest : (rank + 1) * largest] for rank in range(ranks)]
    return [_from_fewest(group, size=size) for group in groups]


Group = list[Sequence[Core]]


def _smallest(groups: Sequence[Group]) -> int:
    """Cores of the smallest group."""
    return min(sum(len(node) for node in group) for group in groups)


def _neighbours(nodes: Sequence[Sequence[Core]], *, groups: int) -> list[Group]:
    """So many groups of neighbouring nodes, the smallest as large as can be."""
    size = sum(len(node) for node in nodes) // groups
    while True:
        filled: list[Group] = [[]]
        for node in nodes:
            if len(filled) < groups and sum(map(len, filled[-1])) >= size:
                filled.append([])
            filled[-1].append(node)
        if len(filled) == groups and _smallest(filled) >= size:
            return filled
        size -= 1


def _fullest(nodes: Sequence[Sequence[Core]], *, groups: int) -> list[Group]:
    """So many groups, each of the largest nodes left put into the smallest group, in the order of nodes."""
    filled: list[list[int]] = [[] for _ in range(groups)]
    for index in sorted(range(len(nodes)), key=lambda index: -len(nodes[index])):
        min(filled, key=lambda group: sum(len(nodes[i]) for i in group)).append(index)
    return [[nodes[index] for index in sorted(group)] for group in sorted(filled, key=min)]


def _from_fewest(group: Group, *, size: int) -> Sequence[Core]:
    """So many cores of as few nodes as can be, in the order of nodes."""
    taken: dict[int, Sequence[Core]] = {}
    for index in sorted(range(len(group)), key=lambda index: -len(group[index])):
        taken[index] = group[index][: size - sum(map(len, taken.values()))]
    return [core for index in sorted(taken) for core in taken[index]]


def _cut_inside(by_node: Mapping[int, Sequence[Core]], *, ranks: int) -> list[Sequence[Core]]:
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


def _comm_way(parts: Sequence[Sequence[Core]], *, wanted: int) -> tuple[str, int]:
    """Where communication threads go, the same for every rank, and to how many CPUs: `siblings`, `cores` or
    `none`. One idle sibling is worth more than whole cores taken from the arithmetic."""
    siblings = min(sum(len(core) - 1 for core in part) for part in parts)
    size = len(parts[0])
    if wanted and siblings:
        return "siblings", min(wanted, siblings)
    if wanted and size >= CORES_TO_SPARE_ONE and 2 * wanted <= size:
        return "cores", wanted
    return "none", 0


def _slice(part: Sequence[Core], *, number: int, way: str) -> Slice:
    firsts = tuple(core[0].number for core in part)
    nodes = tuple(sorted({core[0].node for core in part}))
    if way == "cores":
        return _ascending(firsts[:-number], firsts[-number:], nodes=nodes)
    spare = [cpu.number for core in part for cpu in core[1:]]
    return _ascending(firsts, spare[-number:] if way == "siblings" else (), nodes=nodes)


def _ascending(compute: Sequence[int], comm: Sequence[int], *, nodes: tuple[int, ...]) -> Slice:
    return Slice(compute=tuple(sorted(compute)), comm=tuple(sorted(comm)), nodes=nodes)
