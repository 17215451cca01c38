"""The module that stands in for Kubernetes' own carries the same Go version and staging releases."""

from __future__ import annotations

import pytest

from tests.cluster.go_build import own_module

KUBERNETES_GO_MOD = """\
// This is a generated file. Do not edit directly.

module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require k8s.io/api v0.0.0

replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/client-go => ./staging/src/k8s.io/client-go
\tgithub.com/other => ./elsewhere
)
"""


@pytest.mark.parametrize(
    ("go_mod", "version", "expected"),
    [
        pytest.param(
            KUBERNETES_GO_MOD,
            "1.37.2",
            [
                "module tools",
                "go 1.26.0",
                "require k8s.io/kubernetes v1.37.2",
                "replace k8s.io/api => k8s.io/api v0.37.2",
                "replace k8s.io/client-go => k8s.io/client-go v0.37.2",
            ],
            id="staging modules become releases of their own",
        ),
        pytest.param(
            "module k8s.io/kubernetes\n",
            "1.34.4",
            ["module tools", "go 1.24", "require k8s.io/kubernetes v1.34.4"],
            id="no go line, no staging",
        ),
    ],
)
def test_own_module_repeats_the_dependency(go_mod: str, version: str, expected: list[str]) -> None:
    assert own_module(go_mod, module="k8s.io/kubernetes", version=version).splitlines() == expected
