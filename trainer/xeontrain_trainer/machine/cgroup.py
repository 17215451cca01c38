"""The CPU set, memory nodes and CPU quota of this process's control group, version 1 and 2.

A container sees its own group at the mount point (with a cgroup namespace, or where the runtime mounts only
that subtree), a plain process sees the whole hierarchy and finds itself by `/proc/self/cgroup`. Both are
tried, the nearer first. A quota of any visible ancestor binds too, so the smallest counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Optional

from .tree import Tree

CPUSET_FILES = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus", "cpus")
MEMORY_FILES = ("cpuset.mems.effective", "cpuset.effective_mems", "cpuset.mems", "mems")


@dataclass(frozen=True)
class Mount:
    """A mounted hierarchy. `root`: which part of it is mounted (`/` where unknown)."""

    point: str
    root: str
    unified: bool
    controllers: frozenset[str]


def read_cpuset(tree: Tree) -> Optional[tuple[int, ...]]:
    """CPUs that the control group allows, None where no group says."""
    return _first_list(tree, controller="cpuset", names=CPUSET_FILES)


def read_memory_nodes(tree: Tree) -> Optional[tuple[int, ...]]:
    """NUMA nodes that the control group allows memory from, None where no group says."""
    return _first_list(tree, controller="cpuset", names=MEMORY_FILES)


def read_quota(tree: Tree) -> Optional[float]:
    """The CFS quota in CPUs, the smallest of the groups in sight; None where none is set."""
    quotas = []
    for folder in _folders(tree, "cpu", upwards=True):
        quota = _quota_v2(tree.text(folder, "cpu.max")) or _quota_v1(
            tree.text(folder, "cpu.cfs_quota_us"), tree.text(folder, "cpu.cfs_period_us")
        )
        if quota:
            quotas.append(quota)
    return min(quotas, default=None)


def read_oom_kills(tree: Tree) -> int:
    """How many processes of this control group the kernel has ended for want of memory; 0 where it does not
    say."""
    for folder in _folders(tree, "memory", upwards=False):
        for name in ("memory.events", "memory.oom_control"):
            found = re.search(r"^oom_kill (\d+)$", tree.text(folder, name) or "", flags=re.MULTILINE)
            if found:
                return int(found.group(1))
    return 0


def _first_list(tree: Tree, *, controller: str, names: Iterable[str]) -> Optional[tuple[int, ...]]:
    # A group without the controller has no such file; what binds it is the nearest ancestor's.
    for folder in _folders(tree, controller, upwards=True):
        for name in names:
            numbers = tree.cpus(folder, name)
            if numbers:
                return numbers
    return None


def _quota_v2(text: Optional[str]) -> Optional[float]:
    """CPUs of `cpu.max`: `max 100000` is none, `150000 100000` is 1.5."""
    words = (text or "").split()
    if not words or words[0] == "max":
        return None
    return _ratio(words[0], words[1] if len(words) > 1 else "100000")


def _quota_v1(quota: Optional[str], period: Optional[str]) -> Optional[float]:
    """CPUs of `cpu.cfs_quota_us` and `cpu.cfs_period_us`; a quota of -1 is none."""
    return _ratio(quota or "", period or "100000")


def _ratio(quota: str, period: str) -> Optional[float]:
    try:
        amount, length = int(quota), int(period)
        return amount / length if amount > 0 and length > 0 else None
    except (ValueError, OverflowError):
        return None


def _folders(tree: Tree, controller: str, *, upwards: bool) -> Iterator[str]:
    """Folders that may hold the controller's files, nearest group first; with `upwards` the ancestors as
    well."""
    group_paths = _group_paths(tree)
    for mount in _mounts(tree):
        if not mount.unified and controller not in mount.controllers:
            continue
        group = group_paths.get("" if mount.unified else controller) or group_paths.get("cpuset-file") or "/"
        yield from _candidates(mount, group, upwards=upwards)


def _candidates(mount: Mount, group: str, *, upwards: bool) -> Iterator[str]:
    inside = os.path.relpath(group, mount.root) if group.startswith(mount.root) else group
    seen = set()
    for relative in (inside, group):
        path = os.path.normpath(relative.lstrip("/") or ".")
        while True:
            folder = os.path.normpath(os.path.join(mount.point, path))
            if folder not in seen:
                seen.add(folder)
                yield folder
            if not upwards or path in (".", ""):
                break
            path = os.path.dirname(path) or "."
    if mount.point not in seen:
        yield mount.point


def _group_paths(tree: Tree) -> dict[str, str]:
    """Group of this process by controller; "" is version 2, `cpuset-file` what /proc/self/cpuset says."""
    paths: dict[str, str] = {}
    for line in (tree.text("proc/self/cgroup") or "").splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3:
            for controller in fields[1].split(","):
                paths[controller] = fields[2]
    cpuset = tree.text("proc/self/cpuset")
    if cpuset:
        paths["cpuset-file"] = cpuset
    return paths


def _mounts(tree: Tree) -> list[Mount]:
    """Mounted hierarchies, version 1 first: on a hybrid system that is where cpu and cpuset live."""
    text = tree.text("proc/self/mountinfo")
    mounts = (
        [_mount_of_mountinfo(line) for line in text.splitlines()]
        if text
        else [_mount_of_mounts(line) for line in (tree.text("proc/mounts") or "").splitlines()]
    )
    return sorted((mount for mount in mounts if mount), key=lambda mount: mount.unified)


def _mount_of_mountinfo(line: str) -> Optional[Mount]:
    fields, _, tail = line.partition(" - ")
    words, types = fields.split(), tail.split()
    if len(words) < 5 or len(types) < 3:
        return None
    return _mount(types[0], point=words[4], root=words[3], options=types[2])


def _mount_of_mounts(line: str) -> Optional[Mount]:
    words = line.split()
    return _mount(words[2], point=words[1], root="/", options=words[3]) if len(words) >= 4 else None


def _mount(kind: str, *, point: str, root: str, options: str) -> Optional[Mount]:
    if kind not in ("cgroup", "cgroup2", "cpuset"):
        return None
    controllers = {"cpuset"} if kind == "cpuset" else set(options.split(","))
    return Mount(
        point=point.replace("\\040", " "),
        root=root,
        unified=kind == "cgroup2",
        controllers=frozenset(controllers),
    )
