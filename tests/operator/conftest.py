"""The resource on the real control plane, and the operator as a process of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from xeontrain_operator import constants
from xeontrain_operator.api.crd import CRD_NAME, crd_yaml
from xeontrain_operator.kube import config
from xeontrain_operator.kube.aio import AioKubeClient

from tests.cluster.control_plane import ControlPlane
from tests.operator.harness import Operator, Place, Team, place, wait_for


@pytest.fixture(scope="session")
def with_definition(control_plane: ControlPlane) -> ControlPlane:
    """The control plane, serving XeonTrainJob."""
    control_plane.kubectl("apply", "--server-side", "-f", "-", input=crd_yaml())
    wait_for(
        lambda: control_plane.kubectl("get", constants.PLURAL, "-A", check=False).returncode == 0 or None,
        what=f"{CRD_NAME} to be served",
    )
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


@pytest.fixture(scope="module")
def operators(with_definition: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A namespace in which the module's tests start operators as they need them."""
    with place(with_definition, tmp_path_factory.mktemp("operator")) as found:
        yield found


@pytest.fixture(scope="module")
def operator(operators: Place) -> Iterator[Operator]:
    """One operator for all tests of the module."""
    with operators.operator() as running:
        yield running


@pytest.fixture
def team(operators: Place) -> Team:
    """The namespace that the operators serve."""
    return operators.team
