"""What the cache leaves out is what no decision reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from xeontrain_operator import cache
from xeontrain_operator.constants import ANNOTATION_TEMPLATE_HASH
from xeontrain_operator.reconcile.decide import decide
from xeontrain_operator.reconcile.observed import Observed

from tests.unit.operator import sample

Document = dict[str, Any]


def _with_ballast(body: Any, api_version: str) -> Document:
    """The object as an API server gives it, with all that others write into it."""
    metadata = {
        "resourceVersion": "7",
        "namespace": "team",
        **body["metadata"],
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
    }
    annotations = {
        **(metadata.get("annotations") or {}),
        "kubectl.kubernetes.io/last-applied-configuration": "x",
    }
    return {"apiVersion": api_version, **body, "metadata": {**metadata, "annotations": annotations}}


def _pod(body: Document) -> Document:
    full = _with_ballast(body, "v1")
    spec = {
        **full["spec"],
        "volumes": [{"name": "state", "emptyDir": {}}],
        "containers": [{**item, "env": [{"name": "A", "value": "b"}]} for item in full["spec"]["containers"]],
    }
    return {**full, "spec": spec}


_ENDED: Document = {
    "phase": "Succeeded",
    "completionTime": sample.stamp(-60),
    "conditions": [
        {
            "type": "Succeeded",
            "status": "True",
            "reason": "Succeeded",
            "message": "done",
            "lastTransitionTime": sample.stamp(-60),
            "observedGeneration": 1,
        }
    ],
}


def _observed(name: str) -> Observed:
    job = sample.job_document()
    pods = (sample.pod(0), sample.pod(1))
    if name == "image":
        pods = (sample.pod(0, state=sample.waiting("ErrImagePull", "not found")), sample.pending_pod(1))
    if name == "verdict":
        pods = (sample.pod(0, state=sample.terminated(sample.result())), sample.pod(1))
    if name == "shared":
        pods = (sample.pod(0), sample.pod(1, status={"qosClass": "Burstable"}))
    if name == "leaving":
        pods = (sample.pod(0, deleted=sample.stamp(-300)), sample.pod(1, owner=None))
    if name in ("ended", "parked"):
        policy = "None" if name == "parked" else "Running"
        job = sample.job_document(spec={"runPolicy": {"cleanPodPolicy": policy}}, status=_ENDED)
    return Observed(
        job=_with_ballast(job, job["apiVersion"]),
        pods=tuple(_pod(pod) for pod in pods),
        **{
            field: _with_ballast(child, child["apiVersion"])
            for field, child in sample.children(job).items()
            if child is not None
        },
    )


def _slim(observed: Observed) -> Observed:
    return replace(
        observed,
        job=cache.slim_job(dict(observed.job)),
        pods=tuple(cache.slim_pod(dict(pod)) for pod in observed.pods),
        stateful_set=observed.stateful_set and cache.slim_stateful_set(dict(observed.stateful_set)),
        service=observed.service and cache.slim_identity(dict(observed.service)),
        config_map=observed.config_map and cache.slim_identity(dict(observed.config_map)),
        network_policy=observed.network_policy and cache.slim_identity(dict(observed.network_policy)),
    )


@pytest.mark.parametrize("name", ["running", "image", "verdict", "shared", "leaving", "ended", "parked"])
def test_slim_copies_decide_the_same(name: str) -> None:
    """The decision about slim copies is the decision about the whole objects."""
    full = _observed(name)
    assert full.stateful_set is not None
    assert decide(_slim(full), settings=sample.SETTINGS, now=sample.NOW) == decide(
        full, settings=sample.SETTINGS, now=sample.NOW
    )


def test_our_annotations_are_kept() -> None:
    """Marks of ours on a set are part of what decisions read."""
    body = sample.children(sample.job_document())["stateful_set"]
    full = _with_ballast(body, "apps/v1")
    full["metadata"]["annotations"][ANNOTATION_TEMPLATE_HASH] = "abc"
    assert cache.slim_stateful_set(full)["metadata"]["annotations"] == {ANNOTATION_TEMPLATE_HASH: "abc"}
