"""The plain manifests: what the chart gives, and nothing that only helm understands."""

from __future__ import annotations

import pytest
import yaml

from tests.chart.helm import Helm, Object
from tests.cluster.control_plane import ControlPlane
from tools import manifests

pytestmark = pytest.mark.cluster


def test_committed_manifests_are_up_to_date(helm: Helm) -> None:
    """Each file is what the chart gives, and no file is left over."""
    files = manifests.chart_files() | manifests.manifest_files(helm=helm.program)
    assert (manifests.differing(files), manifests.stale(files)) == ([], []), "run `make manifests`"


def _committed() -> list[Object]:
    return [yaml.safe_load(path.read_text()) for path in sorted(manifests.MANIFESTS.rglob("*.yaml"))]


def test_nothing_of_helm_is_left() -> None:
    """No label or annotation claims that helm manages what kubectl applied."""
    for item in _committed():
        metadata = item.get("metadata", {})
        keys = [*metadata.get("labels", {}), *metadata.get("annotations", {})]
        assert [key for key in keys if "helm" in key or key == "app.kubernetes.io/managed-by"] == []


def test_kustomization_is_taken_by_a_real_api_server(control_plane: ControlPlane) -> None:
    """`kubectl apply -k` works, in whatever order kubectl puts the objects, and again without a change."""
    command = ("apply", "--server-side", "--validate=strict", "-k", str(manifests.MANIFESTS))
    try:
        control_plane.kubectl(*command)
        control_plane.kubectl("wait", "--for=condition=Established", "crd/xeontrainjobs.xeontrain.dev")
        before = control_plane.kubectl("get", "deployment,configmap", "-n", manifests.NAMESPACE, "-o=yaml")
        control_plane.kubectl(*command)
        after = control_plane.kubectl("get", "deployment,configmap", "-n", manifests.NAMESPACE, "-o=yaml")
        assert _generations(after.stdout) == _generations(before.stdout)
    finally:
        control_plane.kubectl("delete", "--ignore-not-found", "--wait=false", "-k", str(manifests.MANIFESTS))
        control_plane.kubectl(
            *("wait", "--for=delete", f"namespace/{manifests.NAMESPACE}", "--timeout=60s"), check=False
        )


def _generations(text: str) -> dict[str, int | None]:
    items = yaml.safe_load(text)["items"]
    return {item["metadata"]["name"]: item["metadata"].get("generation") for item in items}
