"""A node that nobody reaches any more while its pods run on, and that comes back, on real kubelets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.e2e.jobs import Namespace, small_job
from tests.e2e.test_joins import _launcher_of
from tests.e2e.test_lifecycle import WAITING, _go_on, _in_round, _restarts

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

# Until the node is NotReady, the pod past its grace and the operator's margin, and its successor at work.
REPLACED_SECONDS = 240


@contextlib.contextmanager
def cut_off(cluster: Cluster, name: str) -> Iterator[None]:
    """The node's kubelet is silent and its pods reach nothing beyond its bridge; healed at the end."""
    node = cluster.nodes[name]
    bridge = f"xt-{node.spec.number}"
    rules = [["FORWARD", "-i", bridge], ["FORWARD", "-o", bridge], ["INPUT", "-i", bridge]]
    namespaces = cluster.control_plane.namespaces
    node.stop_kubelet()
    for rule in rules:
        namespaces.run(["iptables", "-I", *rule, "-j", "DROP"])
    try:
        yield
    finally:
        for rule in rules:
            namespaces.run(["iptables", "-D", *rule, "-j", "DROP"])
        node.start_kubelet()


@pytest.fixture
def nodes(ns: Namespace) -> Iterator[None]:
    """The two nodes of the pool are labelled with the namespace's name; all labels go at the end."""
    ns.cluster.kubectl("label", "nodes", "node-a", "node-b", f"{ns.name}=here")
    yield
    ns.cluster.kubectl("label", "nodes", "--all", f"{ns.name}-")


@pytest.mark.usefixtures("nodes")
def test_the_node_of_worker_0_is_cut_off(ns: Namespace, thin_image: str) -> None:
    """Its pod is deleted by force, its successor coordinates a later round elsewhere, and what still runs on
    the old node ends when that comes back; neither disturbs the other."""
    job = small_job("cut-node", image=thin_image, script=WAITING, runPolicy={"gracePeriodSeconds": 15})
    placement = {"nodeSelector": {ns.name: "here"}, "spread": "OnePerNode", "nodeLostSeconds": 0}
    job["spec"]["placement"].update(placement)
    ns.apply(job)
    _in_round(ns, "cut-node", 1, 0, 1)
    pod = ns.get("pod", "cut-node-0")
    assert pod is not None
    launcher = _launcher_of(pod["metadata"]["uid"])
    ns.cluster.kubectl("label", "node", "node-system", f"{ns.name}=here")
    with cut_off(ns.cluster, pod["spec"]["nodeName"]):
        ns.wait_for_log("cut-node-0", "rank 0 of 2 round 2", timeout_seconds=REPLACED_SECONDS)
        _in_round(ns, "cut-node", 2, 1)
        assert _launcher_of(pod["metadata"]["uid"]) == launcher
        _go_on(ns, "cut-node", 0, 1)
        ended = ns.wait_for_phase("cut-node", "Succeeded")
        assert (_restarts(ended, "failures"), _restarts(ended, "preemptions")) == (0, 1)
    ns.wait("all nodes ready", ns.cluster.all_nodes_ready, timeout_seconds=90)
    ns.wait("the old launcher's end", lambda: not _lives(pod["metadata"]["uid"]), timeout_seconds=90)
    assert ns.job("cut-node")["status"]["phase"] == "Succeeded"


def _lives(pod_uid: str) -> bool:
    try:
        _launcher_of(pod_uid)
    except AssertionError:
        return False
    return True
