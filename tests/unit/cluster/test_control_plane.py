"""The fast tier is a whole control plane: controllers act, the scheduler judges, RBAC holds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.control_plane import ControlPlane

pytestmark = pytest.mark.cluster

STATEFUL_SET = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "probe"},
    "spec": {
        "serviceName": "probe",
        "podManagementPolicy": "Parallel",
        "replicas": 2,
        "selector": {"matchLabels": {"app": "probe"}},
        "template": {
            "metadata": {"labels": {"app": "probe"}},
            "spec": {"containers": [{"name": "main", "image": "example.invalid/none"}]},
        },
    },
}


def eventually(answer: Callable[[], str], *, expected: str) -> None:
    """Waits until an answer is the expected one; the test's own timeout is the limit."""
    while answer() != expected:
        time.sleep(0.2)


def test_controllers_make_pods_and_the_scheduler_judges_them(
    control_plane: ControlPlane, namespace: str
) -> None:
    """A StatefulSet gets its pods; with no node they are Unschedulable, in the scheduler's words."""
    control_plane.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(STATEFUL_SET))
    query = "jsonpath={.items[*].status.conditions[?(@.type=='PodScheduled')].reason}"
    eventually(
        lambda: control_plane.kubectl("get", "pods", "-n", namespace, "-o", query).stdout,
        expected="Unschedulable Unschedulable",
    )


def test_rbac_holds_for_service_accounts(control_plane: ControlPlane, namespace: str) -> None:
    """A service account's token is accepted and may do what a role says and nothing else."""
    control_plane.kubectl("create", "serviceaccount", "operator", "-n", namespace)
    kubeconfig = str(control_plane.service_account_kubeconfig("operator", namespace=namespace))

    def may(verb: str) -> str:
        query = ["--kubeconfig", kubeconfig, "auth", "can-i", verb, "pods", "-n", namespace]
        return control_plane.kubectl(*query, check=False).stdout.strip()

    assert (may("get"), may("delete")) == ("no", "no")
    role = ["create", "rolebinding", "operator", "--clusterrole=view", "-n", namespace]
    control_plane.kubectl(*role, f"--serviceaccount={namespace}:operator")
    eventually(lambda: may("get"), expected="yes")
    assert may("delete") == "no"


def test_processes_inside_reach_it_too(control_plane: ControlPlane) -> None:
    """A program started inside the namespaces finds the API server through KUBECONFIG."""
    version = json.loads(control_plane.run(["kubectl", "version", "-o", "json"]).stdout)
    assert version["serverVersion"]["gitVersion"] == version["clientVersion"]["gitVersion"]


def test_an_ended_control_plane_leaves_its_logs_and_nothing_else(control_plane: ControlPlane) -> None:
    """A second one beside the session's own: nothing of it is left but logs."""
    with ControlPlane.running(binaries=control_plane.binaries) as second:
        process_one = Path(f"/proc/{second.namespaces.pid}")
        folder = second.folder
        assert process_one.exists()
    assert not process_one.exists()
    assert not folder.state.exists()
    assert (folder.logs / "kube-apiserver.log").stat().st_size > 0
