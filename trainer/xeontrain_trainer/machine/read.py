"""Reads a `Machine` from `/sys` and `/proc`: of this pod, or recorded in a folder or a tar.

Sources: kernel documentation of sysfs cputopology and cache, cgroup v1 cpusets and cgroup v2
`cpuset.cpus.effective`, `cpu.max`. Missing files, offline CPUs and sparse numbers are normal: what is unknown
becomes one core a CPU, socket 0, node 0. Host counts never stand in where a CPU set is in force.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Optional, Union

from .cgroup import read_cpuset, read_memory_nodes, read_oom_kills, read_quota
from .cpuinfo import CpuInfo, parse_cpuinfo
from .cpulist import format_cpus, parse_cpus
from .model import FEATURE_FLAGS, Cache, Cpu, Machine
from .tree import FolderTree, Tree

CPU_DIR = "sys/devices/system/cpu"
NODE_DIR = "sys/devices/system/node"
# Intel's kernel driver lists the slower cores of a hybrid machine here.
ATOM_CPUS = "sys/devices/cpu_atom/cpus"
# Without that list: cores that reach less than this share of the fastest's clock. Favoured cores of one and
# the same kind differ by less (Intel's own launcher of IPEX draws the line at the same place).
SLOWER_KIND = 0.85


class MachineError(Exception):
    """The CPUs of this machine cannot be read, or the granted set is empty."""


def open_tree(path: str) -> Tree:
    """The tree of a folder (`/`: this machine) or of a tar. Raises MachineError."""
    if os.path.isdir(path):
        return FolderTree(path)
    if not os.path.exists(path):
        raise MachineError(f"{path}: no such file or folder")
    # Not at the top: the launcher reads no archive, and must not wait for what reads one.
    from .archive import ArchiveError, ArchiveTree

    try:
        return ArchiveTree(path)
    except ArchiveError as error:
        raise MachineError(str(error)) from None


def read_machine(source: Union[str, Tree] = "/", *, cpus: Optional[Iterable[int]] = None) -> Machine:
    """The machine of a folder, a tar, or a tree that is open already.

    `cpus` names the granted CPUs (a what-if over a recording). Without it they are the affinity mask of this
    process cut by its cpuset for `/`, and the cpuset files of the recording (else all online CPUs) elsewhere.
    Raises MachineError where no CPU is left.
    """
    tree = open_tree(source) if isinstance(source, str) else source
    online = _online(tree)
    asked = None if cpus is None else tuple(cpus)
    granted = sorted(set(_granted(tree, online) if asked is None else asked) & set(online))
    if not granted:
        raise MachineError(_nothing_left(tree.name, online=online, asked=asked))
    node_of = _node_of_cpus(tree)
    slower = _slower_kind(tree, granted)
    infos = parse_cpuinfo(tree.text("proc/cpuinfo") or "")
    known = [infos[number] for number in granted if number in infos]
    return Machine(
        cpus=tuple(
            _read_cpu(tree, number, node=node_of.get(number, 0), efficient=number in slower)
            for number in granted
        ),
        online=online,
        quota_cpus=read_quota(tree),
        memory_nodes=_memory_nodes(tree),
        model=known[0].model if known else "",
        features=_common_features(known),
        mixed=len({(info.model, _features(info)) for info in known}) > 1,
        caches=_caches(tree, granted[0], online=online),
    )


def count_oom_kills(root: str = "/") -> int:
    """How many processes of this container the kernel has ended for want of memory; 0 where it does not
    say."""
    return read_oom_kills(FolderTree(root))


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
    if not found:
        return None
    try:
        return parse_cpus(found.group(1))
    except ValueError:
        return None


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


def _slower_kind(tree: Tree, cpus: Iterable[int]) -> frozenset[int]:
    """Those of the CPUs that are of a hybrid machine's slower kind."""
    listed = tree.cpus(ATOM_CPUS)
    if listed is not None:
        return frozenset(listed)
    clocks = {n: tree.number(CPU_DIR, f"cpu{n}", "cpufreq/cpuinfo_max_freq") or 0 for n in cpus}
    known = {number: clock for number, clock in clocks.items() if clock}
    fastest = max(known.values(), default=0)
    return frozenset(number for number, clock in known.items() if clock < SLOWER_KIND * fastest)


def _read_cpu(tree: Tree, number: int, *, node: int, efficient: bool) -> Cpu:
    folder = f"{CPU_DIR}/cpu{number}/topology"
    siblings = (
        tree.cpus(folder, "core_cpus_list")
        or tree.cpus(folder, "thread_siblings_list")
        or tree.mask(folder, "thread_siblings")
        or (number,)
    )
    return Cpu(
        number=number,
        core=min(siblings) if number in siblings else number,
        # Unknown is -1 on some machines.
        socket=tree.number(folder, "physical_package_id") or 0,
        node=node,
        die=tree.number(folder, "die_id") or 0,
        l3=_l3(tree, number),
        efficient=efficient,
    )


def _cache_folders(tree: Tree, number: int) -> tuple[str, ...]:
    folder = f"{CPU_DIR}/cpu{number}/cache"
    return tuple(f"{folder}/index{index}" for index in _numbered(tree, folder, "index"))


def _sharing(tree: Tree, folder: str) -> tuple[int, ...]:
    return tree.cpus(folder, "shared_cpu_list") or tree.mask(folder, "shared_cpu_map") or ()


def _l3(tree: Tree, number: int) -> Optional[int]:
    # On all machines known it is the fourth entry, so the look through the folder is rarely needed.
    usual = f"{CPU_DIR}/cpu{number}/cache/index3"
    folders = (usual,) if tree.number(usual, "level") == 3 else _cache_folders(tree, number)
    for folder in folders:
        if tree.number(folder, "level") == 3:
            return min(_sharing(tree, folder), default=number)
    return None


def _caches(tree: Tree, number: int, *, online: tuple[int, ...]) -> tuple[Cache, ...]:
    caches = []
    for folder in _cache_folders(tree, number):
        level, size = tree.number(folder, "level"), _kib(tree.text(folder, "size") or "")
        if level and size:
            threads = len(set(_sharing(tree, folder)) & set(online))
            kind = tree.text(folder, "type") or "Unified"
            caches.append(Cache(level=level, kind=kind, size_kib=size, threads=max(1, threads)))
    return tuple(sorted(caches, key=lambda cache: (cache.level, cache.kind)))


def _kib(text: str) -> int:
    """KiB of `48K` or `105M`; 0 for anything else."""
    found = re.fullmatch(r"(\d{1,9})([KM])", text)
    return int(found.group(1)) * (1024 if found.group(2) == "M" else 1) if found else 0


def _features(info: CpuInfo) -> tuple[str, ...]:
    return tuple(name for name, flag in FEATURE_FLAGS if flag in info.flags)


def _common_features(infos: list[CpuInfo]) -> tuple[str, ...]:
    """Features that every one of these CPUs has: a rank must not use what one of its CPUs lacks."""
    if not infos:
        return ()
    common = frozenset.intersection(*(info.flags for info in infos))
    return tuple(name for name, flag in FEATURE_FLAGS if flag in common)
