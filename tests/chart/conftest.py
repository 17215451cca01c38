"""helm for the tests of the chart, and a control plane that they may install into and uninstall from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from tests.chart.helm import Helm
from tests.cluster import binaries, requirements, settings
from tests.cluster.control_plane import ControlPlane
from tests.cluster.errors import ClusterError, RequirementMissing

T = TypeVar("T")


def _or_skip(what: str, step: Callable[[], T]) -> T:
    """The step's result; skips where this machine cannot do it, and fails where it must (CI)."""
    try:
        return step()
    except RequirementMissing as error:
        if not settings.must_run_all():
            pytest.skip(f"{what}: {error}")
        pytest.fail(f"{what}: {error}", pytrace=False)
    except ClusterError as error:
        pytest.fail(f"{what}: {error}", pytrace=False)


@pytest.fixture(scope="session")
def helm() -> Helm:
    """helm without a cluster: found on this machine, or built into the cache."""
    return Helm(_or_skip("helm", lambda: binaries.ensure(["helm"]))["helm"])


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane of the module's own: these tests delete the resource that others rely on."""
    _or_skip("control_plane", requirements.require_control_plane)
    with ControlPlane.running() as running:
        yield running


@pytest.fixture
def cluster_helm(helm: Helm, control_plane: ControlPlane) -> Helm:
    """helm against the control plane, as administrator."""
    return Helm(helm.program, kubeconfig=control_plane.kubeconfig)
