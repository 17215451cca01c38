"""containerd of the image store and of each node: its configuration and its command line client."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.cluster.namespaces import InsideProcess, Namespaces

# Where kubelets' images and containers live.
NAMESPACE = "k8s.io"
STORE_NAME = "store"
# Snapshotters and services that nothing here uses.
UNUSED_PLUGINS = (
    *("io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs"),
    *("io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.native"),
    *("io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.erofs"),
    *("io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp"),
    *("io.containerd.internal.v1.tracing", "io.containerd.internal.v1.opt"),
)


def state_dir(name: str) -> str:
    """Returns the folder of a containerd's sockets and state: on the namespaces' own /run."""
    return f"/run/xt-{name}"


def socket(name: str) -> str:
    """Returns the path of a containerd's socket inside the namespaces."""
    return f"{state_dir(name)}/containerd.sock"


def store_config(*, root: Path) -> str:
    """Returns the configuration of a containerd that only holds images."""
    cri = ("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime")
    return _config(STORE_NAME, root=root, disabled=[*UNUSED_PLUGINS, *cri])


def node_config(name: str, *, root: Path, pause_image: str, cni_bin: Path, cni_conf: Path) -> str:
    """Returns the configuration of a node's containerd."""
    return (
        _config(name, root=root, disabled=UNUSED_PLUGINS)
        + f"""
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '{pause_image}'
[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = true
  # Without CAP_SYS_RESOURCE (a container, some virtual machines) lowering the score fails every sandbox.
  restrict_oom_score_adj = true
  enable_unprivileged_ports = true
[plugins.'io.containerd.cri.v1.runtime'.containerd]
  default_runtime_name = 'runc'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = false
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['{cni_bin}']
  conf_dir = '{cni_conf}'
"""
    )


def _config(name: str, *, root: Path, disabled: Sequence[str]) -> str:
    plugins = ", ".join(f"'{plugin}'" for plugin in disabled)
    return f"""\
version = 3
root = '{root}'
state = '{state_dir(name)}'
disabled_plugins = [{plugins}]
[grpc]
  address = '{socket(name)}'
[ttrpc]
  address = '{socket(name)}.ttrpc'
"""


class Ctr:
    """containerd's own client, run inside the namespaces."""

    def __init__(self, program: str, *, namespaces: Namespaces, name: str) -> None:
        self._argv = [program, "--address", socket(name), "--namespace", NAMESPACE]
        self._namespaces = namespaces

    def answers(self) -> bool:
        """True once containerd serves."""
        return self._run("version", check=False).returncode == 0

    def images(self) -> list[str]:
        """Returns the names of the images."""
        return self._run("images", "list", "--quiet").stdout.split()

    def blobs(self) -> list[str]:
        """Returns the digests in the content store."""
        return self._run("content", "list", "--quiet").stdout.split()

    def remove(self, names: Sequence[str]) -> None:
        """Removes images and, at once, the layers that no other image has."""
        if names:
            self._run("images", "remove", "--sync", *names)

    def tag(self, name: str, *, alias: str) -> None:
        """Gives an image a second name."""
        self._run("images", "tag", "--force", name, alias)

    @contextmanager
    def importing(self, log: IO[str]) -> Iterator[InsideProcess]:
        """Starts an import that reads an archive on its stdin and unpacks it."""
        argv = [*self._argv, "images", "import", "--local", "--snapshotter", "overlayfs", "-"]
        process = self._namespaces.popen(argv, stdin=subprocess.PIPE, stdout=log, stderr=log)
        with process:
            yield process

    def _run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self._namespaces.run([*self._argv, *arguments], check=check, timeout_seconds=120)
