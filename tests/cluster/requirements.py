"""What this machine must have for each tier, and the list of system packages that brings it.

`python -m tests.cluster.requirements` prints the Debian and Ubuntu packages, one a line, so that
`apt-get install $(python -m tests.cluster.requirements)` does all; with `--check` it says what is missing.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.cluster import cgroups
from tests.cluster.errors import RequirementMissing
from tests.cluster.namespaces import require_namespaces

SYSTEM_PACKAGES = Path(__file__).with_name("system_packages.txt")
CONTROL_PLANE_TOOLS = ("openssl",)
NODE_TOOLS = (
    *("buildah", "debootstrap", "runc", "iptables", "conntrack", "socat", "ethtool"),
    *("tar", "chroot"),
)
CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
CNI_PLUGINS = ("bridge", "host-local", "loopback", "portmap")


def system_packages() -> list[str]:
    """Returns the Debian packages that the cluster needs, without comments."""
    lines = [line.split("#")[0].strip() for line in SYSTEM_PACKAGES.read_text().splitlines()]
    return [line for line in lines if line]


def require_control_plane() -> None:
    """Raises RequirementMissing where the fast tier cannot run here."""
    require_namespaces()
    _require_tools(CONTROL_PLANE_TOOLS)


def require_nodes() -> None:
    """Raises RequirementMissing where kubelets and image builds cannot run here; leaves nothing behind."""
    require_control_plane()
    if os.geteuid() != 0:
        raise RequirementMissing("kubelets and containers need root", remedy="Run it as root")
    _require_tools(NODE_TOOLS)
    cni_folder()
    cgroups.require()


def cni_folder(folders: Iterable[Path] = CNI_FOLDERS) -> Path:
    """Returns the folder that holds the CNI plugins."""
    for folder in folders:
        if all((folder / plugin).exists() for plugin in CNI_PLUGINS):
            return folder
    raise RequirementMissing(f"the CNI plugins {', '.join(CNI_PLUGINS)} are missing", remedy=_remedy())


def _require_tools(tools: Iterable[str]) -> None:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise RequirementMissing(f"not on PATH: {', '.join(missing)}", remedy=_remedy())


def _remedy() -> str:
    return f"On Debian or Ubuntu: apt-get install {' '.join(system_packages())}"


def main(argv: list[str]) -> int:
    """Prints the packages, or with --check whether the e2e tier can run."""
    if argv == ["--check"]:
        try:
            require_nodes()
        except RequirementMissing as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    print("\n".join(system_packages()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
