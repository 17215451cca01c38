"""Which CPUs the pinned nodes give out: disjoint sets, so that two nodes are like two machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

CPU_FOLDER = Path("/sys/devices/system/cpu")
# From this many CPUs on, two are left to the control plane and the system.
LARGE_MACHINE_CPUS = 6
SPARE_CPUS = 2


@dataclass(frozen=True)
class Pool:
    """The CPUs that a node may give out exclusively, and all others, which its kubelet reserves."""

    exclusive: tuple[int, ...]
    reserved: tuple[int, ...]


def split(online: Iterable[int], *, siblings: Mapping[int, int]) -> tuple[Pool, Pool]:
    """Divides a machine's CPUs between two pinned nodes.

    siblings: the first hardware thread of each CPU's core; threads of a core stay on one node where there are
    at least two cores for each. A kubelet must reserve at least one CPU, hence two CPUs are the least.
    """
    ordered = sorted(online, key=lambda cpu: (siblings.get(cpu, cpu), cpu))
    if len(ordered) < 2:
        raise ValueError("two pinned nodes need a machine with at least two CPUs")
    spare = SPARE_CPUS if len(ordered) >= LARGE_MACHINE_CPUS else 0
    shared, free = ordered[:spare], ordered[spare:]
    middle = len(free) // 2
    # The first node gets the later CPUs: the lowest serve interrupts and are the busiest.
    halves = (free[middle:], free[:middle])
    everything = set(shared) | set(free)
    first, second = (
        Pool(exclusive=tuple(sorted(half)), reserved=tuple(sorted(everything - set(half)))) for half in halves
    )
    return first, second


def machine(folder: Path = CPU_FOLDER) -> tuple[list[int], dict[int, int]]:
    """Returns the online CPUs and the first thread of each one's core."""
    online = parse((folder / "online").read_text())
    siblings = {}
    for cpu in online:
        path = folder / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        siblings[cpu] = min(parse(path.read_text())) if path.exists() else cpu
    return online, siblings


def parse(text: str) -> list[int]:
    """Returns the CPUs of a kernel list such as `0-3,8`."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return cpus


def render(cpus: Iterable[int]) -> str:
    """Returns CPUs as a list that the kernel and the kubelet read."""
    return ",".join(str(cpu) for cpu in cpus)
