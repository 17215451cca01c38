"""Where the API serves the kinds that the operator touches."""

from __future__ import annotations

import pytest
from xeontrain_operator.kube import kinds


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(kinds.POD.path(), "/api/v1/pods", id="all namespaces"),
        pytest.param(
            kinds.POD.path(namespace="a", name="b", subresource="log"),
            "/api/v1/namespaces/a/pods/b/log",
            id="subresource",
        ),
        pytest.param(
            kinds.STATEFUL_SET.path(namespace="a", name="b"),
            "/apis/apps/v1/namespaces/a/statefulsets/b",
            id="group",
        ),
        pytest.param(kinds.NODE.path(name="n"), "/api/v1/nodes/n", id="without namespace"),
        pytest.param(
            kinds.JOB.path(namespace="a"),
            "/apis/xeontrain.dev/v1alpha1/namespaces/a/xeontrainjobs",
            id="ours",
        ),
    ],
)
def test_path(path: str, expected: str) -> None:
    """The URL path of the API conventions."""
    assert path == expected


@pytest.mark.parametrize("kind", kinds.ALL, ids=lambda kind: kind.kind)
def test_kind_of_a_manifest(kind: kinds.Kind) -> None:
    """Manifests and names lead to the same kind."""
    assert kinds.of({"apiVersion": kind.api_version, "kind": kind.kind}) is kind
    assert kinds.named(kind.kind) is kind
