"""The programs of the cluster: found on this machine, or built from Go modules into the cache.

Looked for in this order, the first with a fitting version wins: the folder that KUBEBUILDER_ASSETS
names, PATH, `<cache>/bin/<component>-v<version>/`. What is nowhere is built into the last.
`python -m tests.cluster.binaries` builds all that is missing and prints where each program is.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import settings
from tests.cluster.errors import ClusterError
from tests.cluster.go_build import GoInstall, OwnModule, StagedModule, build_missing

VERSION_PATTERN = re.compile(r"\bv?(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True)
class Component:
    """Programs that come from one module at one version.

    `same_parts` says how many parts of a found program's version must equal the wanted one: two for
    Kubernetes, whose programs must not be further apart than a minor version, one elsewhere.
    """

    name: str
    version: str
    source: GoInstall | OwnModule | StagedModule
    programs: tuple[str, ...]
    same_parts: int = 1

    def folder(self, cache: Path) -> Path:
        """Returns the folder in the cache that this component's programs are built into."""
        return cache / "bin" / f"{self.name}-v{self.version}"

    def fits(self, version: tuple[int, ...]) -> bool:
        """True where a found program of this version may stand in for the wanted one."""
        wanted = tuple(int(part) for part in self.version.split("."))
        return version[: self.same_parts] == wanted[: self.same_parts]


KUBERNETES_PROGRAMS = (
    "kubectl",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
)
CONTROL_PLANE_PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
)
NODE_PROGRAMS = ("kubelet", "kube-proxy", "containerd", "containerd-shim-runc-v2", "ctr", "coredns")
ALL_PROGRAMS = (*CONTROL_PLANE_PROGRAMS, *NODE_PROGRAMS, "helm")


def components(k8s_version: str | None = None) -> tuple[Component, ...]:
    """Returns every component that the cluster is made of, smallest build first."""
    k8s = k8s_version or settings.kubernetes_version()
    return (
        Component(
            "etcd",
            settings.ETCD_VERSION,
            OwnModule(module="go.etcd.io/etcd/server/v3", packages={"etcd": "go.etcd.io/etcd/server/v3"}),
            ("etcd",),
        ),
        Component(
            "kubernetes",
            k8s,
            StagedModule(module="k8s.io/kubernetes", commands=KUBERNETES_PROGRAMS),
            KUBERNETES_PROGRAMS,
            same_parts=2,
        ),
        Component(
            "helm", settings.HELM_VERSION, GoInstall(packages={"helm": "helm.sh/helm/v4/cmd/helm"}), ("helm",)
        ),
        Component(
            "containerd",
            settings.CONTAINERD_VERSION,
            GoInstall(packages=_containerd_packages(), cgo=True),
            ("containerd", "containerd-shim-runc-v2", "ctr"),
        ),
        Component(
            "coredns",
            settings.COREDNS_VERSION,
            GoInstall(packages={"coredns": "github.com/coredns/coredns"}),
            ("coredns",),
        ),
    )


def _containerd_packages() -> dict[str, str]:
    programs = ("containerd", "containerd-shim-runc-v2", "ctr")
    return {program: f"github.com/containerd/containerd/v2/cmd/{program}" for program in programs}


def find(program: str, *, component: Component, env: Mapping[str, str] = os.environ) -> Path | None:
    """Returns the path of a fitting program on this machine, or None where it has to be built."""
    built = component.folder(settings.cache_dir(env)) / program
    if component.name == "containerd":
        # The three of containerd must be of one build: a shim of another version refuses its daemon.
        return built if built.exists() else None
    for candidate in _candidates(program, env=env):
        version = program_version(candidate)
        if version and component.fits(version):
            return candidate
    return built if built.exists() else None


def _candidates(program: str, *, env: Mapping[str, str]) -> list[Path]:
    found = []
    if env.get("KUBEBUILDER_ASSETS"):
        found.append(Path(env["KUBEBUILDER_ASSETS"]) / program)
    on_path = shutil.which(program, path=env.get("PATH"))
    if on_path:
        found.append(Path(on_path))
    return [path for path in found if path.is_file() and os.access(path, os.X_OK)]


def program_version(program: Path) -> tuple[int, ...] | None:
    """Returns the version that a program tells, as numbers, or None where it tells none."""
    arguments = {"kubectl": ["version", "--client"], "helm": ["version"], "coredns": ["-version"]}
    argv = [str(program), *arguments.get(program.name, ["--version"])]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = VERSION_PATTERN.search(done.stdout)
    return tuple(int(part) for part in match.groups()) if match else None


class Binaries:
    """Paths by program name; `binaries["kubectl"]`. A program that was not asked for is a KeyError."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = dict(paths)

    def __getitem__(self, program: str) -> str:
        return str(self._paths[program])

    def items(self) -> list[tuple[str, Path]]:
        """Returns (program, path) pairs in the order in which they were asked for."""
        return list(self._paths.items())

    def search_path(self) -> str:
        """Returns a PATH with the programs' folders first and the system's (runc, iptables) last."""
        folders = list(dict.fromkeys(str(path.parent) for path in self._paths.values()))
        return os.pathsep.join([*folders, os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def ensure(programs: Iterable[str] = ALL_PROGRAMS, *, k8s_version: str | None = None) -> Binaries:
    """Returns the paths of the programs, building those that this machine does not have.

    Raises RequirementMissing where something must be built and Go is not there, ComponentFailed with
    the end of the build's log where a build fails.
    """
    owners = {program: one for one in components(k8s_version) for program in one.programs}
    wanted = list(programs)
    found = {program: find(program, component=owners[program]) for program in wanted}
    missing = [program for program, path in found.items() if path is None]
    for component in dict.fromkeys(owners[program] for program in missing):
        of_this = [program for program in missing if owners[program] == component]
        folder = component.folder(settings.cache_dir())
        build_missing(component.source, version=component.version, programs=of_this, folder=folder)
        found.update({program: folder / program for program in of_this})
    return Binaries({program: path for program, path in found.items() if path is not None})


def main() -> int:
    """Builds what is missing and prints one line a program."""
    try:
        binaries = ensure()
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    for program, path in binaries.items():
        print(f"{program:<26} {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
