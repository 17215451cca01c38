"""The operator, installed by helm as a platform engineer does it, and a namespace for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import OPERATOR_NAMESPACE, Cluster
from tests.cluster.settings import REPOSITORY
from tests.e2e.jobs import Namespace

CHART = str(REPOSITORY / "charts" / "xeontrain")
DEPLOYMENT_READY_SECONDS = 180


@pytest.fixture(scope="session")
def installed(cluster: Cluster, operator_image: str) -> Cluster:
    """The cluster with the chart installed by its defaults."""
    cluster.helm("install", "xeontrain", CHART, "-n", OPERATOR_NAMESPACE, "--create-namespace")
    wait_for_operator(cluster)
    return cluster


def wait_for_operator(cluster: Cluster) -> None:
    """Returns once the operator's deployment is available."""
    cluster.kubectl(
        "rollout",
        *("status", "deployment", "-n", OPERATOR_NAMESPACE, f"--timeout={DEPLOYMENT_READY_SECONDS}s"),
        timeout_seconds=DEPLOYMENT_READY_SECONDS + 10,
    )


def scale_operator(cluster: Cluster, replicas: int) -> None:
    """Starts or stops the operator and waits until it is so."""
    cluster.kubectl("scale", "deployment", "--all", "-n", OPERATOR_NAMESPACE, f"--replicas={replicas}")
    if replicas:
        wait_for_operator(cluster)
    else:
        cluster.kubectl(*("wait", "--for=delete", "pod", "--all", "-n", OPERATOR_NAMESPACE, "--timeout=60s"))


@pytest.fixture
def ns(installed: Cluster, cluster_namespace: str) -> Iterator[Namespace]:
    """A fresh namespace; its jobs are deleted after the test, so that the pinned CPUs are free again."""
    namespace = Namespace(installed, cluster_namespace)
    yield namespace
    namespace.kubectl("delete", "xeontrainjobs", "--all", "--wait=false")
    namespace.wait("no pods", lambda: not namespace.list("pods"), timeout_seconds=90)


@pytest.fixture
def tiny_data(ns: Namespace) -> None:
    """The ConfigMap `data` with a few labelled lines: train.csv, columns text and label."""
    rows = [f"{'good' if i % 2 else 'bad'} {i},{'ham' if i % 2 else 'spam'}" for i in range(16)]
    text = "\n".join(["text,label", *rows]) + "\n"
    ns.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "data"},
            "data": {"train.csv": text},
        }
    )
