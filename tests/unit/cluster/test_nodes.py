"""The nodes are real: exclusive CPUs, DNS, Services and volumes work for pods as on a cluster of machines."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.cluster.cluster import OPERATOR_NAMESPACE, POOL_LABEL, Cluster
from tests.cluster.storage import VOLUMES_PER_NODE

pytestmark = pytest.mark.e2e

IDLE = "import time\nwhile True: time.sleep(60)"
RESOURCES = {"cpu": "1", "memory": "128Mi"}


def pinned_set(image: str) -> dict[str, Any]:
    """Returns a StatefulSet of two guaranteed pods, one a node, each with a claim."""
    spread = {"labelSelector": {"matchLabels": {"app": "pinned"}}, "topologyKey": "kubernetes.io/hostname"}
    container = {
        "name": "main",
        "image": image,
        "command": ["python3", "-c", IDLE],
        "resources": {"requests": RESOURCES, "limits": RESOURCES},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "pinned"},
        "spec": {
            "serviceName": "pinned",
            "podManagementPolicy": "Parallel",
            "replicas": 2,
            "selector": {"matchLabels": {"app": "pinned"}},
            "template": {
                "metadata": {"labels": {"app": "pinned"}},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "securityContext": {"runAsUser": 1000, "fsGroup": 1000},
                    "affinity": {
                        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [spread]}
                    },
                    "containers": [container],
                },
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        },
    }


HEADLESS = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "pinned"},
    "spec": {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"app": "pinned"},
        "ports": [{"port": 29400}],
    },
}


@pytest.fixture
def pinned(cluster: Cluster, cluster_namespace: str, thin_image: str) -> str:
    """The namespace of a running pinned set."""
    documents = {"apiVersion": "v1", "kind": "List", "items": [HEADLESS, pinned_set(thin_image)]}
    cluster.kubectl("apply", "-n", cluster_namespace, "-f", "-", input=json.dumps(documents))
    status = ["rollout", "status", "statefulset/pinned", "-n", cluster_namespace, "--timeout=120s"]
    cluster.kubectl(*status, timeout_seconds=150)
    return cluster_namespace


def python_in(cluster: Cluster, namespace: str, pod: str, code: str) -> str:
    """Returns what a line of Python prints inside a pod."""
    return cluster.kubectl("exec", "-n", namespace, pod, "--", "python3", "-c", code).stdout.strip()


def test_two_pods_get_disjoint_exclusive_cpus(cluster: Cluster, pinned: str) -> None:
    """What the process sees, what the kubelet says it gave, and the node's pool are the same."""
    pods = json.loads(cluster.kubectl("get", "pods", "-n", pinned, "-o", "json").stdout)["items"]
    seen: dict[str, set[int]] = {}
    for pod in pods:
        name, node = pod["metadata"]["name"], cluster.nodes[pod["spec"]["nodeName"]]
        affinity = json.loads(
            python_in(
                cluster, pinned, name, "import os, json; print(json.dumps(sorted(os.sched_getaffinity(0))))"
            )
        )
        assert node.exclusive_cpus()[pod["metadata"]["uid"]]["main"] == affinity
        assert node.spec.pool
        assert set(affinity) <= set(node.spec.pool.exclusive)
        assert pod["status"]["qosClass"] == "Guaranteed"
        seen[node.name] = set(affinity)
    assert sorted(seen) == ["node-a", "node-b"]
    assert seen["node-a"].isdisjoint(seen["node-b"])


def test_pods_find_and_reach_each_other(cluster: Cluster, pinned: str) -> None:
    """A pod's name in the headless Service resolves on the other node, and a connection gets there."""
    name = f"pinned-1.pinned.{pinned}.svc.cluster.local."
    probe = f"import socket; socket.create_server(('', 29400)); s = socket.gethostbyname('{name}'); print(s)"
    ip = cluster.kubectl("get", "pod", "pinned-1", "-n", pinned, "-o", "jsonpath={.status.podIP}").stdout
    while python_in_or_nothing(cluster, pinned, "pinned-0", probe) != ip:
        time.sleep(1)
    refused = (
        "import socket\n"
        f"try: socket.create_connection(('{ip}', 9), timeout=5)\n"
        "except ConnectionRefusedError: print('refused')"
    )
    assert python_in(cluster, pinned, "pinned-0", refused) == "refused"


def python_in_or_nothing(cluster: Cluster, namespace: str, pod: str, code: str) -> str:
    """As `python_in`, but a failure is an empty answer: names take a moment to appear."""
    argv = ["exec", "-n", namespace, pod, "--", "python3", "-c", code]
    return cluster.kubectl(*argv, check=False).stdout.strip()


def test_services_have_addresses_that_work(cluster: Cluster, pinned: str) -> None:
    """The API server answers a pod under its Service's address."""
    code = "import socket; socket.create_connection(('10.96.0.1', 443), timeout=10); print('reached')"
    assert python_in(cluster, pinned, "pinned-0", code) == "reached"


def test_claims_are_writable_by_a_pods_group_and_used_again(cluster: Cluster, pinned: str) -> None:
    """A non-root pod writes to its claim; when the claim is deleted the volume is emptied and Available."""
    code = "open('/data/model', 'w').write('x'); print('written')"
    assert python_in(cluster, pinned, "pinned-0", code) == "written"
    cluster.kubectl("delete", "statefulset", "pinned", "-n", pinned, "--cascade=foreground")
    cluster.kubectl("delete", "pvc", "--all", "-n", pinned)
    query = ["get", "persistentvolumes", "-o", "jsonpath={.items[*].status.phase}"]
    every = ["Available"] * VOLUMES_PER_NODE * len(cluster.nodes)
    while cluster.kubectl(*query).stdout.split() != every:
        time.sleep(1)
    assert not list(cluster.control_plane.folder.state.glob("node-*/volumes/*/model"))


def test_the_operators_namespace_goes_to_the_system_node(cluster: Cluster, thin_image: str) -> None:
    """A pod there needs to say nothing about nodes, and other pods do not come."""
    argv = ["run", "probe", f"--image={thin_image}", "-n", OPERATOR_NAMESPACE, "--restart=Never"]
    cluster.kubectl(*argv, "--command", "--", "python3", "-c", "print('ran')")
    done = "--for=jsonpath={.status.phase}=Succeeded"
    cluster.kubectl("wait", "pod/probe", "-n", OPERATOR_NAMESPACE, done, "--timeout=60s")
    pod = json.loads(cluster.kubectl("get", "pod", "probe", "-n", OPERATOR_NAMESPACE, "-o", "json").stdout)
    assert pod["spec"]["nodeSelector"][POOL_LABEL] == "system"
    assert pod["spec"]["nodeName"] == "node-system"
    assert cluster.kubectl("logs", "probe", "-n", OPERATOR_NAMESPACE).stdout == "ran\n"
    cluster.kubectl("delete", "pod", "probe", "-n", OPERATOR_NAMESPACE, "--wait=false")


def test_a_node_whose_kubelet_ends_becomes_not_ready_and_comes_back(cluster: Cluster) -> None:
    """What the tests of node loss rely on."""
    node = cluster.nodes["node-b"]
    ready = "--for=condition=Ready"
    node.stop_kubelet()
    cluster.kubectl("wait", "node/node-b", f"{ready}=Unknown", "--timeout=120s", timeout_seconds=150)
    node.start_kubelet()
    cluster.kubectl("wait", "node/node-b", f"{ready}=True", "--timeout=120s", timeout_seconds=150)
