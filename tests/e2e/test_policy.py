"""What `spec.runPolicy` promises, on real kubelets with the real scheduler."""

from __future__ import annotations

import json

import pytest

from tests.e2e.jobs import Document, Namespace, command_job, condition, training_job

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
DEADLINE_SECONDS = 10
KEPT_FOR_THE_YOUNGER = "node-b"


def _nodes(ns: Namespace, job: str) -> set[str]:
    """The nodes that the job's pods have."""
    pods = [pod for pod in ns.list("pods") if pod["metadata"]["name"].startswith(f"{job}-")]
    return {pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}


def test_of_two_half_placed_jobs_the_later_makes_room(ns: Namespace, thin_image: str) -> None:
    """Each holds one of the two nodes that both need: the older runs, then the other; nobody is asked."""
    policy = {"runPolicy": {"preRunningDeadlineSeconds": DEADLINE_SECONDS, "gracePeriodSeconds": 15}}
    hold = {"key": "hold", "operator": "Exists"}
    elder = command_job("elder", image=thin_image, script="print('done')", **policy)
    younger = command_job(
        "younger", image=thin_image, script="print('done')", placement={"tolerations": [hold]}, **policy
    )
    ns.cluster.kubectl("taint", "node", KEPT_FOR_THE_YOUNGER, "hold=younger:NoSchedule")
    try:
        ns.apply(elder)
        ns.wait("the elder's node", lambda: _nodes(ns, "elder"), timeout_seconds=60)
        ns.apply(younger)
        ns.wait("the younger's node", lambda: _nodes(ns, "younger"), timeout_seconds=60)
    finally:
        ns.cluster.kubectl("taint", "node", KEPT_FOR_THE_YOUNGER, "hold-")
    for name in ("elder", "younger"):
        ns.wait_for_phase(name, "Succeeded", timeout_seconds=180)
        restarts = ns.job(name)["status"].get("restarts") or {}
        assert (restarts.get("failures", 0), restarts.get("preemptions", 0)) == (0, 0)
    gave_way = [event for event in ns.list("events") if event["reason"] == "YieldedNodes"]
    assert [event["involvedObject"]["name"] for event in gave_way] == ["younger"]
    assert f"job {ns.name}/elder, which comes first" in gave_way[0]["message"]


def test_a_suspended_training_goes_on_where_it_was(
    ns: Namespace, trainer_image: str, tiny_data: None
) -> None:
    """Its pods go with a checkpoint saved and their CPUs are free; resumed, it does no step again."""
    job = training_job(
        "nap", hyperparameters={"batchSize": 4, "maxSteps": 400, "epochs": 200, "maxLength": 16}
    )
    job["spec"]["storage"] = {"size": "2Gi"}
    ns.apply(job)
    ns.wait("some steps", lambda: _step(ns.job("nap")) >= 3, timeout_seconds=120)
    _suspend(ns, "nap", wanted=True)
    suspended = ns.wait_for_phase("nap", "Suspended")
    ns.wait("pods gone", lambda: not ns.list("pods"), timeout_seconds=60)
    assert ns.get("statefulset", "nap") is None
    assert (suspended["status"].get("restarts") or {}).get("failures", 0) == 0
    _suspend(ns, "nap", wanted=False)
    resumed = ns.wait_for_condition("nap", "ResumeInexact", status="False", timeout_seconds=120)
    saved = int(resumed["message"].split("checkpoint of step ")[1].split()[0])
    assert saved >= 3
    log = ns.wait_for_log("nap-0", f"goes on from the checkpoint of step {saved}")
    assert f"step {saved + 1}/400" in ns.wait_for_log("nap-0", f"step {saved + 1}/400")
    assert "passed over" not in log
    job_now = ns.job("nap")
    assert job_now["status"]["progress"]["lastCheckpointStep"] == saved
    restarts = job_now["status"].get("restarts") or {}
    assert (restarts.get("failures", 0), restarts.get("preemptions", 0)) == (0, 0)
    assert condition(job_now, "Suspended")["status"] == "False"  # type: ignore[index]


def _step(job: Document) -> int:
    return int((job.get("status", {}).get("progress") or {}).get("step") or 0)


def _suspend(ns: Namespace, job: str, *, wanted: bool) -> None:
    patch = json.dumps({"spec": {"runPolicy": {"suspend": wanted}}})
    ns.kubectl("patch", "xeontrainjob", job, "--type=merge", "-p", patch)
