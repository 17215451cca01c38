"""The machine as boxes in boxes, each CPU with its role: what both pictures draw. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from xeontrain_operator.cli.explain.answer import Answer, Cpu
from xeontrain_operator.cli.run.cpus import as_list


class Role(Enum):
    """What a CPU does."""

    COMPUTE = "computes"
    COMM = "communicates"
    ANY = "any rank, not pinned"
    UNUSED = "granted, unused"
    OTHER = "not granted"


@dataclass(frozen=True)
class Thread:
    """A logical CPU. `rank`: None where it is no single rank's."""

    number: int
    role: Role
    rank: int | None = None


@dataclass(frozen=True)
class Core:
    """A physical core with its sibling threads. `efficient`: of a hybrid machine's slower kind."""

    threads: tuple[Thread, ...]
    efficient: bool


@dataclass(frozen=True)
class Group:
    """Cores of one kind that share a level-3 cache. `name`: empty where a node has but one."""

    name: str
    cores: tuple[Core, ...]


@dataclass(frozen=True)
class Node:
    """A NUMA node."""

    name: str
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class Socket:
    """A socket, or several where a node spans them."""

    name: str
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Picture:
    """All of it. `ranks`: their number."""

    sockets: tuple[Socket, ...]
    ranks: int

    @property
    def threads(self) -> tuple[Thread, ...]:
        """All CPUs, in the order of the picture."""
        return tuple(
            thread
            for socket in self.sockets
            for node in socket.nodes
            for group in node.groups
            for core in group.cores
            for thread in core.threads
        )

    @property
    def roles(self) -> frozenset[Role]:
        """The roles that occur."""
        return frozenset(thread.role for thread in self.threads)


# Tableau's palette of ten, which most of the colour-blind can tell apart too, with black or white text.
COLOURS: Final = (
    ("#4e79a7", "#ffffff"),
    ("#f28e2b", "#000000"),
    ("#59a14f", "#000000"),
    ("#e15759", "#000000"),
    ("#76b7b2", "#000000"),
    ("#edc948", "#000000"),
    ("#b07aa1", "#000000"),
    ("#ff9da7", "#000000"),
    ("#9c755f", "#ffffff"),
    ("#d7b5a6", "#000000"),
)


def colour(rank: int) -> tuple[str, str]:
    """Background and text of a rank."""
    return COLOURS[rank % len(COLOURS)]


def make_picture(answer: Answer) -> Picture:
    """Order the machine's CPUs by socket, NUMA node, level-3 cache and core."""
    threads = _threads(answer)
    cpus = sorted((*answer.granted, *answer.others), key=lambda cpu: (cpu.node, cpu.core, cpu.number))
    nodes = _grouped(cpus, lambda cpu: cpu.node)
    spans = {node: tuple(sorted({cpu.socket for cpu in members})) for node, members in nodes.items()}
    sockets = _grouped(sorted(nodes, key=lambda node: (spans[node], node)), lambda node: spans[node])
    return Picture(
        sockets=tuple(
            Socket(
                name=f"Socket{'s' * (len(span) > 1)} {as_list(span)}",
                nodes=tuple(_node(number, nodes[number], threads) for number in members),
            )
            for span, members in sockets.items()
        ),
        ranks=len(answer.ranks),
    )


def _threads(answer: Answer) -> dict[int, Thread]:
    threads = {cpu.number: Thread(cpu.number, Role.OTHER) for cpu in answer.others}
    free = Role.UNUSED if answer.bound else Role.ANY
    threads |= {cpu.number: Thread(cpu.number, free) for cpu in answer.granted}
    if answer.bound:
        for rank in answer.ranks:
            threads |= {number: Thread(number, Role.COMPUTE, rank.rank) for number in rank.compute}
            threads |= {number: Thread(number, Role.COMM, rank.rank) for number in rank.comm}
    return threads


def _node(number: int, cpus: list[Cpu], threads: dict[int, Thread]) -> Node:
    groups = _grouped(
        cpus, lambda cpu: (cpu.efficient, cpu.socket, cpu.die, -1 if cpu.l3 is None else cpu.l3)
    )
    names = dict.fromkeys(groups, "") if len(groups) == 1 else _group_names(groups)
    return Node(
        name=f"NUMA node {number}",
        groups=tuple(
            Group(name=names[key], cores=tuple(_cores(groups[key], threads))) for key in sorted(groups)
        ),
    )


GroupKey = tuple[bool, int, int, int]


def _group_names(groups: Iterable[GroupKey]) -> dict[GroupKey, str]:
    """What tells the groups of a node apart: kind of core, socket, die, or only their caches."""
    keys = list(groups)
    if len({key[0] for key in keys}) == len(keys):
        return {key: "slower cores" if key[0] else "fast cores" for key in keys}
    for index, word in ((1, "socket"), (2, "die")):
        if len({key[index] for key in keys}) == len(keys):
            return {key: f"{word} {key[index]}" for key in keys}
    return dict.fromkeys(keys, "shared L3")


def _cores(cpus: list[Cpu], threads: dict[int, Thread]) -> Iterable[Core]:
    for members in _grouped(cpus, lambda cpu: cpu.core).values():
        yield Core(threads=tuple(threads[cpu.number] for cpu in members), efficient=members[0].efficient)


T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def _grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """The items by key, in the order of first appearance."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
