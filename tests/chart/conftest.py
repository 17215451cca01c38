"""helm for the tests of the chart: found on this machine, or built into the cache."""

from __future__ import annotations

import pytest

from tests.chart.helm import Helm
from tests.cluster import binaries, settings
from tests.cluster.control_plane import ControlPlane
from tests.cluster.errors import ClusterError, RequirementMissing


@pytest.fixture(scope="session")
def helm() -> Helm:
    """helm without a cluster."""
    try:
        return Helm(binaries.ensure(["helm"])["helm"])
    except RequirementMissing as error:
        if settings.must_run_all():
            pytest.fail(f"helm: {error}", pytrace=False)
        pytest.skip(f"helm: {error}")
    except ClusterError as error:
        pytest.fail(f"helm: {error}", pytrace=False)


@pytest.fixture
def cluster_helm(helm: Helm, control_plane: ControlPlane) -> Helm:
    """helm against the control plane, as administrator."""
    return Helm(helm.program, kubeconfig=control_plane.kubeconfig)
