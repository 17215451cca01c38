"""Mistakes that users make: each ends in a refusal or a condition with field, cause and remedy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.errors import ClusterError
from tests.e2e.jobs import Namespace, command_job, condition, training_job

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metadata": {"name": "n" * 53}}, ["metadata.name", "52"]),
        ({"cpu": 7.5}, ["spec.resources.cpu"]),
        ({"cpu": "7.5"}, ["spec.resources.cpu", "whole"]),
    ],
    ids=["name-of-53", "7.5-cpus", "7.5-cpus-as-text"],
)
def test_refused_at_apply(ns: Namespace, thin_image: str, change: dict[str, Any], words: list[str]) -> None:
    """What the API server can see it refuses, with the field and the remedy."""
    job = command_job("bad", image=thin_image, script="pass")
    job["metadata"] = change.get("metadata", job["metadata"])
    job["spec"]["resources"]["cpu"] = change.get("cpu", 1)
    with pytest.raises(ClusterError) as refusal:
        ns.apply(job)
    for word in words:
        assert word in str(refusal.value)


def test_image_that_is_not_there(ns: Namespace) -> None:
    """A wrong image is named with the field and what to check, while the job waits for a mended registry."""
    ns.apply(command_job("wrong-image", image="no-such-image:1", script="pass"))
    found = ns.wait(
        "a condition that names the image",
        lambda: (
            (c := condition(ns.job("wrong-image"), "Running")) and "no-such-image:1" in c["message"] and c
        ),
        timeout_seconds=60,
    )
    assert found["status"] == "False"
    assert found["reason"] == "ImagePullFailed"
    assert "spec.image" in found["message"]


@pytest.mark.parametrize(
    ("training", "words"),
    [
        (
            {"dataset": {"files": {"train": ["/data/absent.csv"]}}},
            ["spec.training.dataset.files.train", "/data/absent.csv"],
        ),
        (
            {"dataset": {"files": {"train": ["/data/train.csv"]}, "columns": {"label": "lable"}}},
            ["spec.training.dataset.columns.label", "lable", "text"],
        ),
        (
            {
                "hyperparameters": {
                    "batchSize": 4,
                    "maxSteps": 20,
                    "maxLength": 16,
                    "learningRate": 1e9,
                    "warmupRatio": 0,
                }
            },
            ["spec.training.hyperparameters.learningRate"],
        ),
    ],
    ids=["missing-file", "bad-column", "loss-not-finite"],
)
@pytest.mark.usefixtures("tiny_data", "trainer_image")
def test_user_error_ends_the_job_at_once(ns: Namespace, training: dict[str, Any], words: list[str]) -> None:
    """What only the trainer can see ends the job without a retry, and the condition says what to change."""
    ns.apply(training_job("bad", **training))
    job = ns.wait_for_phase("bad", "Failed", timeout_seconds=240)
    failed = condition(job, "Failed")
    assert failed is not None
    assert failed["reason"] == "UserError"
    for word in words:
        assert word in failed["message"]
    assert job["status"].get("restarts", {}).get("failures", 0) <= 1


def test_pods_that_fit_no_node(ns: Namespace, thin_image: str) -> None:
    """A job that no node can hold says so with the scheduler's words instead of waiting in silence."""
    job = command_job("too-large", image=thin_image, script="pass")
    job["spec"]["resources"]["cpu"] = 200
    ns.apply(job)
    found = ns.wait_for_condition("too-large", "Placed", status="False")
    assert found["reason"] == "WaitingForNodes"
    assert "Insufficient cpu" in found["message"]
