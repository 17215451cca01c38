"""One node: cgroup, containerd and kubelet, with the facts that a test asks about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster import cgroups, containerd, cpus, kubelet, network, requirements
from tests.cluster.containerd import Ctr
from tests.cluster.control_plane import ControlPlane
from tests.cluster.cpus import Pool

START_SECONDS = 60


@dataclass(frozen=True)
class NodeSpec:
    """What makes a node different from the others.

    number: 1 to 99, gives its address and its range of pod addresses. pool: its exclusive CPUs; None: it pins
    nothing. taints: registered with it.
    """

    name: str
    number: int
    labels: Mapping[str, str]
    pool: Pool | None = None
    taints: list[dict[str, str]] = field(default_factory=list)

    @property
    def address(self) -> str:
        """The node's own address on the loopback interface of the namespaces."""
        return f"10.250.0.{100 + self.number}"

    @property
    def subnet(self) -> str:
        """The range of its pods' addresses."""
        return f"10.244.{self.number}.0/24"

    @property
    def user(self) -> str:
        """The name under which its kubelet is known to the API server."""
        return f"system:node:{self.name}"


class Node:
    """A node of a running cluster."""

    def __init__(self, spec: NodeSpec, *, control_plane: ControlPlane, kubeconfig: Path) -> None:
        self.spec = spec
        self.name = spec.name
        self.folder = control_plane.folder.state / spec.name
        self._control_plane = control_plane
        self._kubeconfig = kubeconfig
        self._components = control_plane.components
        self._ctr = Ctr(control_plane.binaries["ctr"], namespaces=control_plane.namespaces, name=spec.name)

    @property
    def containerd_root(self) -> Path:
        """The root folder of its containerd, to be filled from the image store before it starts."""
        return self.folder / "containerd"

    def start_containerd(self, *, pause_image: str) -> None:
        """Starts its containerd; `wait_for_containerd` waits for it."""
        cni = self.folder / "cni"
        cni.mkdir(parents=True)
        (cni / "10.conflist").write_text(
            network.cni_config(
                bridge=f"xt-{self.spec.number}", subnet=self.spec.subnet, data_dir=self.folder / "ipam"
            )
        )
        config = self.folder / "containerd.toml"
        config.write_text(
            containerd.node_config(
                self.name,
                root=self.containerd_root,
                pause_image=pause_image,
                cni_bin=requirements.cni_folder(),
                cni_conf=cni,
            )
        )
        binaries = self._control_plane.binaries
        # The shim and runc are looked for on PATH.
        environment = {"PATH": binaries.search_path()}
        argv = [binaries["containerd"], "--config", str(config)]
        self._components.start(f"{self.name}-containerd", argv, env=environment)

    def wait_for_containerd(self, *, aliases: Mapping[str, str]) -> None:
        """Waits for its containerd and gives images the names (alias: name) that users write."""
        self._components.wait_until(
            self._ctr.answers,
            what=f"containerd of {self.name}",
            component=f"{self.name}-containerd",
            timeout_seconds=START_SECONDS,
        )
        for alias, name in aliases.items():
            self._ctr.tag(name, alias=alias)

    def start_kubelet(self) -> None:
        """Starts its kubelet, for the first time or again after `stop_kubelet`."""
        run = self._control_plane.folder.name
        config = self.folder / "kubelet.yaml"
        config.write_text(
            kubelet.config(
                self.name,
                address=self.spec.address,
                cgroup_root=cgroups.make(run, node=self.name),
                folder=self.folder,
                pool=self.spec.pool,
                taints=self.spec.taints,
            )
        )
        labels = ",".join(f"{key}={value}" for key, value in self.spec.labels.items())
        argv = [
            self._control_plane.binaries["kubelet"],
            *(f"--config={config}", f"--kubeconfig={self._kubeconfig}", f"--hostname-override={self.name}"),
            *(f"--node-ip={self.spec.address}", f"--node-labels={labels}", "--v=2"),
            *(f"--root-dir={self.kubelet_root}", f"--cert-dir={self.folder / 'pki'}"),
        ]
        self._components.start(f"{self.name}-kubelet", argv)

    def stop_kubelet(self) -> None:
        """Ends its kubelet; containers go on, the node will be NotReady."""
        self._components.stop(f"{self.name}-kubelet")

    @property
    def kubelet_root(self) -> Path:
        """The kubelet's own folder (pods, volumes, CPU manager's state)."""
        return self.folder / "kubelet"

    def exclusive_cpus(self) -> dict[str, dict[str, list[int]]]:
        """Returns the CPUs that the kubelet has given out, by pod UID and container name."""
        path = self.kubelet_root / kubelet.CPU_MANAGER_STATE
        entries = json.loads(path.read_text()).get("entries") or {}
        return {
            pod: {container: cpus.parse(text) for container, text in containers.items()}
            for pod, containers in entries.items()
        }
