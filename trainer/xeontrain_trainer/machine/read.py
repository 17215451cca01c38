"""Reads a `Machine` from `/sys` and `/proc` under a root folder: `/` of this pod, or a recording.

Sources: kernel documentation of sysfs cputopology, cgroup v1 cpusets and cgroup v2 `cpuset.cpus.effective`,
`cpu.max`. Missing files, CPUs that are offline and sparse numbers are normal: what is unknown becomes one
core a CPU, socket 0, node 0. Host counts never stand in where a CPU set is in force.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Optional

from .cgroup import read_cpuset, read_memory_nodes, read_oom_kills, read_quota
from .cpuinfo import CpuInfo, parse_cpuinfo
from .cpulist import format_cpus, parse_cpus
from .model import FEATURE_FLAGS, Cpu, Machine
from .tree import Tree

CPU_DIR = "sys/devices/system/cpu"
NODE_DIR = "sys/devices/system/node"


class MachineError(Exception):
    """The CPUs of this machine cannot be read, or the granted set is empty."""


def read_machine(root: str = "/", *, cpus: Optional[Iterable[int]] = None) -> Machine:
    """The machine under `root`.

    `cpus` names the granted CPUs (a what-if over a recording). Without it they are the affinity mask of this
    process cut by its cpuset for `/`, and the cpuset files of the recording (else all online CPUs) elsewhere.
    Raises MachineError where no CPU is left.
    """
    tree = Tree(root)
    online = _online(tree)
    asked = None if cpus is None else tuple(cpus)
    granted = sorted(set(_granted(tree, online) if asked is None else asked) & set(online))
    if not granted:
        raise MachineError(_nothing_left(root, online=online, asked=asked))
    node_of = _node_of_cpus(tree)
    infos = parse_cpuinfo(tree.text("proc/cpuinfo") or "")
    known = [infos[number] for number in granted if number in infos]
    return Machine(
        cpus=tuple(_read_cpu(tree, number, node_of=node_of) for number in granted),
        online=online,
        quota_cpus=read_quota(tree),
        memory_nodes=_memory_nodes(tree),
        model=known[0].model if known else "",
        features=_common_features(known),
        mixed=len({(info.model, _features(info)) for info in known}) > 1,
    )


def count_oom_kills(root: str = "/") -> int:
    """How many processes of this container the kernel has ended for want of memory; 0 where it does not
    say."""
    return read_oom_kills(Tree(root))


def _nothing_left(root: str, *, online: tuple[int, ...], asked: Optional[tuple[int, ...]]) -> str:
    if not online:
        return f"{root} names no CPU: it needs {CPU_DIR} or proc/stat"
    named = "the CPU set" if asked is None else f"the list {format_cpus(asked) or '(empty)'}"
    return f"{named} holds none of the CPUs online under {root}: {format_cpus(online)}"


def _online(tree: Tree) -> tuple[int, ...]:
    """CPUs online on the host, from the first source that says so."""
    listed = tree.cpus(CPU_DIR, "online")
    if listed:
        return listed
    stat = re.findall(r"^cpu(\d+) ", tree.text("proc/stat") or "", flags=re.MULTILINE)
    present = tuple(sorted(map(int, stat))) or _numbered(tree, CPU_DIR, "cpu")
    if present:
        return tuple(number for number in present if tree.text(CPU_DIR, f"cpu{number}", "online") != "0")
    return tuple(sorted(os.sched_getaffinity(0))) if tree.live else ()


def _granted(tree: Tree, online: tuple[int, ...]) -> tuple[int, ...]:
    """CPUs this process may use. The kernel keeps the affinity mask inside the cpuset; the file is a second
    guard for the moment between a change of the set and the mask."""
    cpuset = read_cpuset(tree)
    if tree.live:
        mask = tuple(sorted(os.sched_getaffinity(0)))
        inside = tuple(number for number in mask if cpuset is None or number in cpuset)
        return inside or mask
    return cpuset or _status_list(tree, "Cpus_allowed_list") or online


def _status_list(tree: Tree, key: str) -> Optional[tuple[int, ...]]:
    found = re.search(rf"^{key}:\s*([\d,-]+)", tree.text("proc/self/status") or "", flags=re.MULTILINE)
    return parse_cpus(found.group(1)) if found else None


def _memory_nodes(tree: Tree) -> tuple[int, ...]:
    """NUMA nodes that memory may come from: allowed, and having memory where the kernel says which have."""
    allowed = read_memory_nodes(tree) or _status_list(tree, "Mems_allowed_list")
    folders = _numbered(tree, NODE_DIR, "node")
    listed = tree.cpus(NODE_DIR, "has_memory") or tree.cpus(NODE_DIR, "has_normal_memory") or folders
    present = listed if set(listed) <= set(folders) else folders
    if allowed is None:
        return present
    return tuple(node for node in allowed if node in present)


def _numbered(tree: Tree, folder: str, prefix: str) -> tuple[int, ...]:
    """The numbers N of the entries `<prefix>N` of a folder, ascending."""
    found = (re.fullmatch(prefix + r"(\d+)", name) for name in tree.names(folder))
    return tuple(sorted(int(match.group(1)) for match in found if match))


def _node_of_cpus(tree: Tree) -> dict[int, int]:
    nodes: dict[int, int] = {}
    for node in _numbered(tree, NODE_DIR, "node"):
        folder = f"{NODE_DIR}/node{node}"
        members = (
            tree.cpus(folder, "cpulist") or tree.mask(folder, "cpumap") or _numbered(tree, folder, "cpu")
        )
        nodes.update((number, node) for number in members)
    return nodes


def _read_cpu(tree: Tree, number: int, *, node_of: Mapping[int, int]) -> Cpu:
    folder = f"{CPU_DIR}/cpu{number}/topology"
    siblings = (
        tree.cpus(folder, "core_cpus_list")
        or tree.cpus(folder, "thread_siblings_list")
        or tree.mask(folder, "thread_siblings")
        or (number,)
    )
    package = tree.text(folder, "physical_package_id") or "0"
    return Cpu(
        number=number,
        core=min(siblings) if number in siblings else number,
        socket=max(0, int(package)) if package.lstrip("-").isdigit() else 0,
        node=node_of.get(number, 0),
    )


def _features(info: CpuInfo) -> tuple[str, ...]:
    return tuple(name for name, flag in FEATURE_FLAGS if flag in info.flags)


def _common_features(infos: list[CpuInfo]) -> tuple[str, ...]:
    """Features that every one of these CPUs has: a rank must not use what one of its CPUs lacks."""
    if not infos:
        return ()
    common = frozenset.intersection(*(info.flags for info in infos))
    return tuple(name for name, flag in FEATURE_FLAGS if flag in common)
