"""The builders' documents on the real API server: taken strictly, and their pods made under the
restricted Pod Security Standard."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from xeontrain_operator.api.v1alpha1 import parse_job
from xeontrain_operator.builders.children import build_children

from tests.cluster.control_plane import ControlPlane
from tests.unit.operator.builders.test_children import EVERYTHING
from tests.unit.operator.sample import SETTINGS, job, job_document

WAIT_SECONDS = 120.0


def _apply(control_plane: ControlPlane, children: list[dict[str, Any]], *arguments: str) -> str:
    bundle = {"apiVersion": "v1", "kind": "List", "items": children}
    applied = control_plane.kubectl(
        *("create", "--validate=strict", "-f", "-", "-o", "json", *arguments), input=json.dumps(bundle)
    )
    return str(applied.stderr)


def _wait_for_items(control_plane: ControlPlane, namespace: str, kind: str, *, number: int) -> list[Any]:
    deadline = time.monotonic() + WAIT_SECONDS
    found: list[Any] = []
    while time.monotonic() < deadline:
        listing = control_plane.kubectl("-n", namespace, "get", kind, "-o", "json").stdout
        found = json.loads(listing)["items"]
        if len(found) >= number:
            return found
        time.sleep(0.3)
    events = control_plane.kubectl("-n", namespace, "get", "events").stdout
    raise AssertionError(f"{len(found)} of {number} {kind} after {WAIT_SECONDS:.0f} s:\n{events}")


@pytest.mark.cluster
@pytest.mark.parametrize(
    "spec",
    [{}, {"command": ["true"], "storage": None}, EVERYTHING],
    ids=["training", "command", "everything"],
)
def test_children_are_taken_without_a_warning(
    control_plane: ControlPlane, namespace: str, spec: dict[str, Any]
) -> None:
    """Strictly: no field that the server does not know, no name twice, nothing deprecated."""
    made = build_children(job(spec=spec, namespace=namespace), settings=SETTINGS)
    assert _apply(control_plane, made, "--dry-run=server") == ""


@pytest.mark.cluster
def test_pods_meet_the_restricted_standard_and_claims_belong_to_whom_they_should(
    with_definition: ControlPlane, namespace: str
) -> None:
    """In a namespace that enforces it all pods are made. With `retain: Delete` the set's controller keeps
    the job as the owner of each claim: they outlive the set, and go with the job."""

    def kubectl(*arguments: str, body: dict[str, Any] | None = None) -> str:
        text = json.dumps(body) if body is not None else None
        return str(with_definition.kubectl("-n", namespace, *arguments, input=text).stdout)

    kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    extra = {"name": "logger", "image": "l", "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}}}
    spec = {"storage": {"retain": "Delete"}, "podTemplate": {"containers": [extra]}}
    document = job_document(spec=spec, namespace=namespace)
    made = parse_job(json.loads(kubectl("create", "-f", "-", "-o", "json", body=document)))
    _apply(with_definition, build_children(made, settings=SETTINGS))

    pods = _wait_for_items(with_definition, namespace, "pods", number=2)
    assert {pod["status"]["qosClass"] for pod in pods} == {"Guaranteed"}
    claims = _wait_for_items(with_definition, namespace, "persistentvolumeclaims", number=2)
    owners = [claim["metadata"].get("ownerReferences", []) for claim in claims]
    assert [[owner["uid"] for owner in each] for each in owners] == [[made.metadata.uid]] * 2

    kubectl("delete", "statefulset", "mail", "--cascade=background")
    kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
    assert len(_wait_for_items(with_definition, namespace, "persistentvolumeclaims", number=2)) == 2
    kubectl("delete", "xeontrainjob", "mail", "--cascade=background")
    kubectl("wait", "--for=delete", "persistentvolumeclaims", "--all", "--timeout=120s")
