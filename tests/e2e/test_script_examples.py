"""A script of a user's own in pods, with nothing of ours in it: its progress reaches `kubectl get`."""

from __future__ import annotations

import pytest

from tests.cluster.settings import REPOSITORY
from tests.e2e.jobs import Namespace

EXAMPLE = REPOSITORY / "examples" / "hf-trainer.yaml"
EPOCHS = "num_train_epochs="
# The example's five are over before the operator has looked twice.
MORE_EPOCHS = 40
STEPS_OF_AN_EPOCH = 3


@pytest.mark.e2e
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("trainer_image")
def test_hugging_faces_trainer_reports_by_itself(ns: Namespace) -> None:
    """Steps, loss and time left are in the job's status, though no line of the script tells them."""
    before, middle, after = EXAMPLE.read_text(encoding="utf-8").partition(f"{EPOCHS}5")
    assert middle
    ns.kubectl("apply", "-f", "-", input=f"{before}{EPOCHS}{MORE_EPOCHS}{after}")
    running = ns.wait(
        "progress with a loss",
        lambda: (job := ns.job("hf-trainer")).get("status", {}).get("progress", {}).get("loss") and job,
        timeout_seconds=400,
    )
    total = MORE_EPOCHS * STEPS_OF_AN_EPOCH
    progress = running["status"]["progress"]
    assert (progress["totalSteps"], progress["step"] > 0) == (total, True)
    assert progress["etaDisplay"]
    job = ns.wait_for_phase("hf-trainer", "Succeeded", timeout_seconds=400)
    assert job["status"]["progress"]["display"] == f"100% ({total}/{total})"
