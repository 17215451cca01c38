"""The whole cluster: a control plane, two pinned nodes, one unpinned, DNS, Services, volumes, images.

    with Cluster.running() as cluster:
        cluster.helm("install", "xeontrain", "charts/xeontrain", "-n", OPERATOR_NAMESPACE)
        cluster.kubectl("apply", "-f", "examples/mail-filter.yaml")

node-a and node-b give out disjoint CPUs exclusively (label xeontrain.dev/pool=xeon); node-system pins nothing
and is tainted. Pods of the namespace xeontrain-system go there by the namespace's own annotations, as on a
cluster whose platform team keeps its operators apart, so `helm install` needs no further option.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tests.cluster import binaries as programs
from tests.cluster import cpus, network, requirements, settings, storage
from tests.cluster.binaries import Binaries
from tests.cluster.control_plane import POD_CIDR, ControlPlane
from tests.cluster.credentials import User
from tests.cluster.errors import ClusterError
from tests.cluster.go_build import say
from tests.cluster.image_store import ImageStore
from tests.cluster.images import Images
from tests.cluster.namespaces import Namespaces
from tests.cluster.node import Node, NodeSpec

OPERATOR_NAMESPACE = "xeontrain-system"
POOL_LABEL = "xeontrain.dev/pool"
SYSTEM_TAINT = {"key": "xeontrain.dev/system", "value": "true", "effect": "NoSchedule"}
NODE_GRACE_SECONDS = 40
READY_SECONDS = 300
# Names that users and the chart's defaults write; docker.io/library is what a bare name means.
ALIASES = {
    "operator": "docker.io/library/xeontrain-operator:0.1.0",
    "trainer": "docker.io/library/xeontrain-trainer:0.1.0",
    "thin": "docker.io/library/xeontrain-thin:0.1.0",
}
PAUSE = "pause"
DEFAULT_IMAGES = ("thin", "operator", "trainer")


def node_specs() -> list[NodeSpec]:
    """Returns the three nodes of this machine."""
    online, siblings = cpus.machine()
    pool_a, pool_b = cpus.split(online, siblings=siblings)
    return [
        NodeSpec("node-a", 1, _labels("xeon", zone="zone-a"), pool=pool_a),
        NodeSpec("node-b", 2, _labels("xeon", zone="zone-b"), pool=pool_b),
        NodeSpec("node-system", 3, _labels("system", zone="zone-a"), taints=[SYSTEM_TAINT]),
    ]


def _labels(pool: str, *, zone: str) -> dict[str, str]:
    return {POOL_LABEL: pool, "topology.kubernetes.io/zone": zone}


@dataclass(frozen=True)
class Prepared:
    """What a cluster needs before it starts: programs, and images (full name by short name) in the store."""

    binaries: Binaries
    images: Mapping[str, str]
    store: ImageStore


def prepare(images: Sequence[str] = DEFAULT_IMAGES) -> Prepared:
    """Builds the programs and images that are missing and unpacks the images.

    Minutes on a new machine, a second later. Raises RequirementMissing where this machine cannot run nodes,
    ComponentFailed where a build fails.
    """
    requirements.require_nodes()
    found = programs.ensure()
    library = Images()
    names = library.ensure((PAUSE, *images))
    cache = settings.cache_dir()
    store = ImageStore(cache / "store", binaries=found, logs=cache / "log")
    store.load(library.store.layout, names=names.values())
    return Prepared(binaries=found, images=names, store=store)


class Cluster:
    """A running cluster; made by `running()`."""

    def __init__(
        self, control_plane: ControlPlane, *, nodes: Mapping[str, Node], images: Mapping[str, str]
    ) -> None:
        self.control_plane = control_plane
        self.nodes = dict(nodes)
        self.images = dict(images)
        self.kubeconfig = control_plane.kubeconfig
        self.kubectl = control_plane.kubectl

    @classmethod
    @contextmanager
    def running(cls, *, images: Sequence[str] = DEFAULT_IMAGES) -> Iterator[Cluster]:
        """Builds what is missing, starts the cluster and ends it with the block.

        images: short names of those that the nodes shall have (see images.py).
        """
        prepared = prepare(images)
        specs = node_specs()
        users = [User.new(spec.user, "system:nodes") for spec in specs]
        with ExitStack() as stack:
            stack.enter_context(prepared.store.in_use())
            control_plane = stack.enter_context(
                ControlPlane.running(
                    binaries=prepared.binaries,
                    users=users,
                    addresses=[network.DNS_ADDRESS, *(spec.address for spec in specs)],
                    node_grace_seconds=NODE_GRACE_SECONDS,
                )
            )
            nodes = {
                spec.name: Node(
                    spec,
                    control_plane=control_plane,
                    kubeconfig=control_plane.write_kubeconfig(spec.name, user=user, inside=True),
                )
                for spec, user in zip(specs, users, strict=True)
            }
            cluster = cls(control_plane, nodes=nodes, images=prepared.images)
            cluster._start(prepared.store)
            keeper = storage.VolumeKeeper(control_plane.api)
            stack.callback(keeper.stop)
            yield cluster

    def _start(self, store: ImageStore) -> None:
        started = time.monotonic()
        _prepare_mounts(self.control_plane.namespaces)
        for node in self.nodes.values():
            store.copy_to(node.containerd_root)
            node.start_containerd(pause_image=self.images[PAUSE])
        self._start_network()
        self._create_objects()
        aliases = {ALIASES[short]: name for short, name in self.images.items() if short in ALIASES}
        for node in self.nodes.values():
            node.wait_for_containerd(aliases=aliases)
            node.start_kubelet()
        self.control_plane.components.wait_until(
            self.all_nodes_ready, what="nodes", component="node-a-kubelet", timeout_seconds=READY_SECONDS
        )
        say(f"{len(self.nodes)} nodes ready in {time.monotonic() - started:.0f} s")

    def _start_network(self) -> None:
        state, found = self.control_plane.folder.state, self.control_plane.binaries
        kubeconfig = self.control_plane.kubeconfig_inside
        self.control_plane.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
        (state / "Corefile").write_text(network.corefile(kubeconfig=kubeconfig))
        self.control_plane.components.start("coredns", [found["coredns"], "-conf", str(state / "Corefile")])
        (state / "proxy.yaml").write_text(network.proxy_config(kubeconfig=kubeconfig, pod_cidr=POD_CIDR))
        proxy = [found["kube-proxy"], f"--config={state / 'proxy.yaml'}", "--hostname-override=node-system"]
        self.control_plane.components.start("kube-proxy", proxy)

    def _create_objects(self) -> None:
        objects = [storage.storage_class(), _operator_namespace()]
        for node in self.nodes.values():
            objects += storage.make_volumes(node.name, parent=node.folder / "volumes")
        documents = {"apiVersion": "v1", "kind": "List", "items": objects}
        self.kubectl("apply", "-f", "-", input=json.dumps(documents))

    def all_nodes_ready(self) -> bool:
        """True where every node is Ready."""
        nodes = self.control_plane.api.get("/api/v1/nodes")["items"]
        ready = [
            condition["status"]
            for node in nodes
            for condition in node["status"].get("conditions", [])
            if condition["type"] == "Ready"
        ]
        return ready == ["True"] * len(self.nodes)

    def helm(
        self, *arguments: str, check: bool = True, timeout_seconds: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Runs helm on the host against this cluster; a failure raises ClusterError with helm's words."""
        argv = [self.control_plane.binaries["helm"], "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=timeout_seconds)
        if check and done.returncode != 0:
            raise ClusterError(f"helm {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done


def _prepare_mounts(namespaces: Namespaces) -> None:
    """Hides the places where kubelets, containerd and CNI write whatever they are told."""
    for folder in ("/var/log", "/var/lib/cni", "/var/lib/kubelet"):
        namespaces.run(["mkdir", "-p", folder])
        namespaces.run(["mount", "-t", "tmpfs", "tmpfs", folder])


def _operator_namespace() -> dict[str, Any]:
    toleration = {"key": SYSTEM_TAINT["key"], "operator": "Exists", "effect": SYSTEM_TAINT["effect"]}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": OPERATOR_NAMESPACE,
            "annotations": {
                "scheduler.alpha.kubernetes.io/node-selector": f"{POOL_LABEL}=system",
                "scheduler.alpha.kubernetes.io/defaultTolerations": json.dumps([toleration]),
            },
        },
    }
