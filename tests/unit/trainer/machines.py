"""Machines to test with: built from a few numbers, drawn by hypothesis, and written as `/sys` and `/proc`."""

from __future__ import annotations

import dataclasses
import random
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from hypothesis import strategies as st
from xeontrain_trainer.machine import Cpu, Machine, format_cpus


def build(
    *,
    sockets: int = 1,
    nodes: int = 1,
    cores: int = 4,
    threads: int = 1,
    adjacent: bool = False,
    granted: Iterable[int] | None = None,
    quota_cpus: float | None = None,
) -> Machine:
    """A machine of `sockets` x `nodes` NUMA nodes a socket x `cores` cores a node x `threads` threads a core.

    `adjacent`: sibling threads are 0-1, 2-3, ...; otherwise the second threads follow after all first ones.
    """
    total = sockets * nodes * cores
    cpus = []
    for thread in range(threads):
        for core in range(total):
            number = core * threads + thread if adjacent else thread * total + core
            first = core * threads if adjacent else core
            node = core // cores
            cpus.append(Cpu(number=number, core=first, socket=node // nodes, node=node))
    chosen = None if granted is None else set(granted)
    return Machine(
        cpus=tuple(sorted((c for c in cpus if chosen is None or c.number in chosen), key=lambda c: c.number)),
        online=tuple(sorted(cpu.number for cpu in cpus)),
        quota_cpus=quota_cpus,
        memory_nodes=tuple(range(sockets * nodes)),
        model="Intel(R) Xeon(R) Test",
        features=("AVX2", "AVX512F"),
    )


@dataclass(frozen=True)
class Pair:
    """A machine with all its CPUs, and the same as a pod sees it that was granted some of them."""

    whole: Machine
    granted: Machine


def random_pair(rng: random.Random, *, max_cores: int = 12) -> Pair:
    """Any machine: sockets, nodes of unequal size, sparse numbers, CPUs that are offline, hybrid cores, nodes
    without CPUs; of which any CPUs are granted, with or without a quota."""
    cpus = _random_cpus(rng, max_cores=max_cores)
    nodes = {cpu.node for cpu in cpus}
    memory_only = range(max(nodes) + 1, max(nodes) + 1 + _rarely(rng, lambda: rng.randint(1, 4), 0))
    whole = Machine(
        cpus=cpus,
        online=tuple(cpu.number for cpu in cpus),
        quota_cpus=None,
        memory_nodes=(*sorted(nodes), *memory_only),
        model="Intel(R) Xeon(R) Test",
        features=("AVX2", "AVX512F"),
    )
    quota = _rarely(rng, lambda: rng.randint(1, 20 * len(cpus)) / 10, None)
    granted = dataclasses.replace(whole, cpus=_random_part(rng, cpus), quota_cpus=quota)
    return Pair(whole=whole, granted=granted)


T = TypeVar("T")


def _rarely(rng: random.Random, value: Callable[[], T], usual: T) -> T:
    return value() if rng.randint(0, 4) == 4 else usual


def _random_cpus(rng: random.Random, *, max_cores: int) -> tuple[Cpu, ...]:
    """All CPUs of a machine that are online, ascending by number."""
    sockets, nodes = rng.randint(1, 4), rng.randint(1, 3)
    equal = rng.randint(1, max_cores)
    sizes = [_rarely(rng, lambda: rng.randint(1, max_cores), equal) for _ in range(sockets * nodes)]
    numbers = _rarely(rng, lambda: sorted(rng.sample(range(90), len(sizes))), list(range(len(sizes))))
    places = [(index, core) for index, size in enumerate(sizes) for core in range(size)]
    # The slower cores of a hybrid machine come last and have one thread.
    slower_from = _rarely(rng, lambda: rng.randint(0, len(places)), len(places))
    threads = rng.randint(1, 2)
    siblings = [[(place, thread) for thread in range(threads if place < slower_from else 1)]
                for place in range(len(places))]  # fmt: skip
    flat = [one for core in siblings for one in core]
    if rng.randint(0, 1):
        flat.sort(key=lambda one: (one[1], one[0]))
    number_of = {one: number for number, one in enumerate(flat)}
    online = _rarely(rng, lambda: set(rng.sample(flat, rng.randint(1, len(flat)))), set(flat))
    cpus = []
    for place, core in enumerate(siblings):
        awake = sorted(number_of[one] for one in core if one in online)
        node = numbers[places[place][0]]
        socket = places[place][0] // nodes
        cpus += [
            Cpu(number=n, core=awake[0], socket=socket, node=node, efficient=place >= slower_from)
            for n in awake
        ]
    return tuple(sorted(cpus, key=lambda cpu: cpu.number))


def _random_part(rng: random.Random, cpus: tuple[Cpu, ...]) -> tuple[Cpu, ...]:
    """All CPUs, a row of them, one thread of each core, or any."""
    way = rng.randint(0, 3)
    if way == 0:
        return cpus
    if way == 1:
        first = rng.randint(0, len(cpus) - 1)
        return cpus[first : rng.randint(first + 1, len(cpus))]
    if way == 2:
        return tuple(cpu for cpu in cpus if cpu.number == cpu.core)
    chosen = set(rng.sample([cpu.number for cpu in cpus], rng.randint(1, len(cpus))))
    return tuple(cpu for cpu in cpus if cpu.number in chosen)


pairs = st.randoms(use_true_random=False).map(random_pair)
small_pairs = st.randoms(use_true_random=False).map(lambda rng: random_pair(rng, max_cores=4))
machines = pairs.map(lambda pair: pair.granted)


def write(root: Path, files: dict[str, str]) -> None:
    """The files of a tree, by path."""
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def pack(root: Path) -> Path:
    """A tar of the folder, under a folder of its own as recorders make it."""
    archive = root.parent / f"{root.name}.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(root, arcname=f"{root.name}/recorded")
    return archive


def tree_of(machine: Machine, whole: Machine, *, masks: bool = False) -> dict[str, str]:
    """`/sys` and `/proc` of the machine `whole` in a container that was granted `machine` (cgroup v2).

    `masks`: as old kernels write it, hexadecimal masks instead of lists.
    """
    siblings: dict[int, list[int]] = {}
    members: dict[int, list[int]] = {node: [] for node in whole.memory_nodes}
    for cpu in whole.cpus:
        siblings.setdefault(cpu.core, []).append(cpu.number)
        members[cpu.node].append(cpu.number)
    files = {
        "sys/devices/system/cpu/online": format_cpus(whole.online) + "\n",
        "sys/devices/system/node/has_memory": format_cpus(whole.memory_nodes) + "\n",
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n",
        "sys/fs/cgroup/cpuset.cpus.effective": format_cpus(machine.numbers) + "\n",
        "sys/fs/cgroup/cpuset.mems.effective": format_cpus(machine.memory_nodes) + "\n",
        "sys/fs/cgroup/cpu.max": "max 100000\n"
        if machine.quota_cpus is None
        else f"{round(machine.quota_cpus * 100000)} 100000\n",
        "proc/cpuinfo": "\n".join(cpuinfo(cpu.number) for cpu in whole.cpus),
    }
    for cpu in whole.cpus:
        folder = f"sys/devices/system/cpu/cpu{cpu.number}/topology"
        files[f"{folder}/physical_package_id"] = f"{cpu.socket}\n"
        if masks:
            files[f"{folder}/thread_siblings"] = mask(siblings[cpu.core]) + "\n"
        else:
            files[f"{folder}/thread_siblings_list"] = format_cpus(siblings[cpu.core]) + "\n"
    slower = [cpu.number for cpu in whole.cpus if cpu.efficient]
    if slower:
        files["sys/devices/cpu_atom/cpus"] = format_cpus(slower) + "\n"
    for node, numbers in members.items():
        name, text = ("cpumap", mask(numbers)) if masks else ("cpulist", format_cpus(numbers))
        files[f"sys/devices/system/node/node{node}/{name}"] = text + "\n"
    return files


def cpuinfo(number: int, *, model: str = "Intel(R) Xeon(R) Test", flags: str = "fpu avx avx2 avx512f") -> str:
    """One block of /proc/cpuinfo."""
    return f"processor\t: {number}\nmodel name\t: {model}\nflags\t\t: {flags}\n"


def mask(numbers: Iterable[int]) -> str:
    """The kernel's mask format: 32-bit words, most significant first."""
    bits = sum(1 << number for number in numbers)
    words = []
    while True:
        words.insert(0, f"{bits & 0xFFFFFFFF:08x}")
        bits >>= 32
        if not bits:
            return ",".join(words)
