"""Machines to test with: built from a few numbers, drawn by hypothesis, and written as `/sys` and `/proc`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

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


@st.composite
def machines(draw: st.DrawFn, *, max_cores: int = 12) -> Machine:
    """Any machine, of which any CPUs are granted, with or without a quota."""
    whole = build(
        sockets=draw(st.integers(1, 4)),
        nodes=draw(st.integers(1, 2)),
        cores=draw(st.integers(1, max_cores)),
        threads=draw(st.integers(1, 2)),
        adjacent=draw(st.booleans()),
    )
    numbers = st.lists(st.sampled_from(whole.online), min_size=1, unique=True)
    granted = draw(st.one_of(st.just(list(whole.online)), numbers))
    quota = draw(st.one_of(st.none(), st.floats(0.1, 2.0 * len(whole.online))))
    return Machine(
        cpus=tuple(cpu for cpu in whole.cpus if cpu.number in set(granted)),
        online=whole.online,
        quota_cpus=quota,
        memory_nodes=whole.memory_nodes,
        model=whole.model,
        features=whole.features,
    )


def write(root: Path, files: dict[str, str]) -> None:
    """The files of a tree, by path."""
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def tree_of(machine: Machine, whole: Machine, *, masks: bool = False) -> dict[str, str]:
    """`/sys` and `/proc` of the machine `whole` in a container that was granted `machine` (cgroup v2).

    `masks`: as old kernels write it, hexadecimal masks instead of lists.
    """
    siblings: dict[int, list[int]] = {}
    members: dict[int, list[int]] = {}
    for cpu in whole.cpus:
        siblings.setdefault(cpu.core, []).append(cpu.number)
        members.setdefault(cpu.node, []).append(cpu.number)
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
