"""The cgroups of a cluster: `/<run>/<node>` in every hierarchy, on cgroup v1, hybrid and v2."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.errors import RequirementMissing

ROOT = Path("/sys/fs/cgroup")
V1_HIERARCHIES = (
    *("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer"),
    *("blkio", "pids", "systemd", "hugetlb", "net_cls", "net_prio", "perf_event"),
)
V2_CONTROLLERS = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids")


def is_v2(root: Path = ROOT) -> bool:
    """True where the machine has the unified hierarchy only."""
    return (root / "cgroup.controllers").exists()


def hierarchies(root: Path = ROOT) -> list[Path]:
    """Returns the folders under which a cluster's cgroups lie."""
    if is_v2(root):
        return [root]
    return [root / name for name in (*V1_HIERARCHIES, "unified") if (root / name).is_dir()]


def make(run: str, *, node: str, root: Path = ROOT) -> str:
    """Makes the cgroups of a node and returns their path as a kubelet's `cgroupRoot` (`/run/node`).

    On v1 a new cpuset is empty and takes no process until it is filled in; on v2 controllers must be
    handed down level by level.
    """
    for hierarchy in hierarchies(root):
        folder = hierarchy
        for part in (run, node):
            if is_v2(root):
                _hand_down(folder)
            folder = folder / part
            folder.mkdir(exist_ok=True)
            if not is_v2(root) and hierarchy.name == "cpuset":
                _copy_from_parent(folder, names=("cpuset.cpus", "cpuset.mems"))
    return f"/{run}/{node}"


def _copy_from_parent(folder: Path, *, names: Sequence[str]) -> None:
    for name in names:
        (folder / name).write_text((folder.parent / name).read_text())


def _hand_down(folder: Path) -> None:
    offered = (folder / "cgroup.controllers").read_text().split()
    control = folder / "cgroup.subtree_control"
    given = control.read_text().split()
    for controller in V2_CONTROLLERS:
        if controller in offered and controller not in given:
            control.write_text(f"+{controller}")


def require(root: Path = ROOT) -> None:
    """Raises RequirementMissing where cgroups for pods cannot be made, as in most containers."""
    name = f"xt-probe-{os.getpid()}"
    try:
        make(name, node="node", root=root)
    except OSError as error:
        raise RequirementMissing(
            f"cgroups cannot be made here: {error}",
            remedy="Run it on a machine, or in a container with its own writable cgroup tree",
        ) from error
    finally:
        remove(name, root=root)


def remove(run: str, *, root: Path = ROOT) -> None:
    """Removes the cgroups of a run; one that still has a process stays, with its parents."""
    for hierarchy in hierarchies(root):
        folder = hierarchy / run
        for path, _, _ in os.walk(folder, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(path)
