"""The resource on the real control plane, and the operator as a process of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from xeontrain_operator.api.crd import CRD_NAME, crd_yaml
from xeontrain_operator.kube import config
from xeontrain_operator.kube.aio import AioKubeClient

from tests.cluster.control_plane import ControlPlane


@pytest.fixture(scope="session")
def with_definition(control_plane: ControlPlane) -> ControlPlane:
    """The control plane, serving XeonTrainJob."""
    control_plane.kubectl("apply", "--server-side", "-f", "-", input=crd_yaml())
    control_plane.kubectl("wait", "--for=condition=Established", f"crd/{CRD_NAME}", "--timeout=30s")
    return control_plane


Calls = list[tuple[str, str, int]]


@pytest.fixture
def calls() -> Calls:
    """The calls that `client` has made: verb, kind, HTTP status."""
    return []


@pytest.fixture
async def client(with_definition: ControlPlane, calls: Calls) -> AsyncIterator[AioKubeClient]:
    """The operator's own client, as administrator."""
    configuration = await config.load(in_cluster=False, kubeconfig=with_definition.kubeconfig)
    client = AioKubeClient(
        configuration, on_call=lambda verb, kind, status: calls.append((verb, kind, status))
    )
    yield client
    await client.close()
