"""A job's life on real kubelets, with ranks that do no training so that each takes seconds."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import OPERATOR_NAMESPACE
from tests.e2e.conftest import CHART, scale_operator, wait_for_operator
from tests.e2e.jobs import Document, Namespace, command_job, condition

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

# A rank that says who it is and then waits until worker 0's rank has been told to go on by a file.
WAITING = (
    "import os, time\n"
    "rank, world, number = (os.environ[n] for n in ('RANK', 'WORLD_SIZE', 'XEONTRAIN_ROUND'))\n"
    "print(f'rank {rank} of {world} round {number}', flush=True)\n"
    "while not os.path.exists('/tmp/go'): time.sleep(0.2)\n"
)
STORAGE = {"storage": {"size": "100Mi"}}


def _go_on(ns: Namespace, job: str, *workers: int) -> None:
    for worker in workers:
        ns.kubectl("exec", f"{job}-{worker}", "--", "touch", "/tmp/go")


def _in_round(ns: Namespace, job: str, number: int, *workers: int) -> None:
    for worker in workers:
        ns.wait_for_log(f"{job}-{worker}", f"rank {worker} of 2 round {number}")


def _restarts(job: Document, kind: str) -> int:
    return int(job["status"].get("restarts", {}).get(kind, 0))


def test_all_ranks_see_the_whole_world(ns: Namespace, thin_image: str) -> None:
    """Each rank gets torchrun's environment, and the job ends with its pods deleted."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "CCL_PROCESS_LAUNCHER")
    script = f"import os; print(*(f'{{n}}={{os.environ[n]}}' for n in {names}))"
    ns.apply(command_job("world", image=thin_image, script=script))
    job = ns.wait_for_phase("world", "Succeeded")
    assert _restarts(job, "failures") == 0
    ns.wait("pods gone", lambda: not ns.list("pods"), timeout_seconds=60)
    assert ns.get("statefulset", "world") is None


def test_dead_rank_makes_a_new_round_in_the_same_pods(ns: Namespace, thin_image: str) -> None:
    """One failure is counted, all ranks start again together, and the run succeeds."""
    script = (
        "import os, sys, time\n"
        "if os.environ['XEONTRAIN_ROUND'] == '1':\n"
        "    time.sleep(1)\n"
        "    sys.exit(3) if os.environ['RANK'] == '1' else time.sleep(600)\n"
        # Longer than the operator's polls are apart, so that it hears the cause from worker 0.
        "time.sleep(8)\n"
    )
    ns.apply(command_job("rank-dies", image=thin_image, script=script))
    job = ns.wait_for_phase("rank-dies", "Succeeded")
    assert _restarts(job, "failures") == 1
    assert _restarts(job, "preemptions") == 0
    assert "exit" in job["status"]["restarts"]["lastReason"]


def test_backoff_limit_ends_the_job_with_the_cause(ns: Namespace, thin_image: str) -> None:
    """A rank that always dies ends the job Failed, naming rank, exit code and its last line."""
    script = "import sys; sys.exit('the disk is on fire')"
    ns.apply(command_job("never-works", image=thin_image, script=script, runPolicy={"backoffLimit": 1}))
    job = ns.wait_for_phase("never-works", "Failed")
    failed = condition(job, "Failed")
    assert failed is not None
    assert failed["reason"] == "BackoffLimitExceeded"
    assert "the disk is on fire" in failed["message"]
    assert _restarts(job, "failures") == 2


def test_program_that_is_not_there(ns: Namespace, thin_image: str) -> None:
    """A command that cannot be found is the user's error: no retry, and the program is named."""
    job = command_job("no-program", image=thin_image, script="pass")
    job["spec"]["command"] = ["no-such-program"]
    ns.apply(job)
    failed = condition(ns.wait_for_phase("no-program", "Failed"), "Failed")
    assert failed is not None
    assert failed["reason"] == "UserError"
    assert "no-such-program" in failed["message"]


def test_replaced_worker_1_joins_a_new_round(ns: Namespace, thin_image: str) -> None:
    """A pod deleted from outside is a preemption, not a failure; its replacement makes a new round."""
    ns.apply(command_job("replaced", image=thin_image, script=WAITING))
    _in_round(ns, "replaced", 1, 0, 1)
    ns.kubectl("delete", "pod", "replaced-1", "--grace-period=1")
    _in_round(ns, "replaced", 2, 0, 1)
    _go_on(ns, "replaced", 0, 1)
    job = ns.wait_for_phase("replaced", "Succeeded")
    assert _restarts(job, "failures") == 0
    assert _restarts(job, "preemptions") == 1


def test_result_survives_the_operators_absence(ns: Namespace, thin_image: str) -> None:
    """With the operator down the job ends, its parked container is ended once more, worker 0's pod is even
    replaced; the operator then finds the result all the same and builds nothing again."""
    ns.apply(command_job("parked", image=thin_image, script=WAITING, **STORAGE))
    _in_round(ns, "parked", 1, 0, 1)
    scale_operator(ns.cluster, 0)
    try:
        _go_on(ns, "parked", 0, 1)
        ns.wait("worker 0 parked", lambda: _restart_count(ns, "parked-0") == 1, timeout_seconds=60)
        ns.wait("running again", lambda: _is_running(ns, "parked-0"), timeout_seconds=60)
        ns.kubectl("exec", "parked-0", "--", "python3", "-c", "import os; os.kill(1, 15)", check=False)
        ns.wait("ended once more", lambda: _restart_count(ns, "parked-0") == 2, timeout_seconds=90)
        message = _last_message(ns, "parked-0")
        assert '"outcome": "Succeeded"' in message or '"outcome":"Succeeded"' in message
        ns.kubectl("delete", "pod", "parked-0", "--grace-period=1")
        ns.wait(
            "the replacement published the result",
            lambda: "Succeeded" in _last_message(ns, "parked-0"),
            timeout_seconds=90,
        )
    finally:
        scale_operator(ns.cluster, 1)
    job = ns.wait_for_phase("parked", "Succeeded")
    assert job["status"]["result"] is not None
    ns.wait("pods gone", lambda: not ns.list("pods"), timeout_seconds=60)


def _container(ns: Namespace, pod: str) -> Document:
    found = ns.get("pod", pod) or {}
    statuses = found.get("status", {}).get("containerStatuses") or [{}]
    return dict(statuses[0])


def _restart_count(ns: Namespace, pod: str) -> int:
    return int(_container(ns, pod).get("restartCount", 0))


def _is_running(ns: Namespace, pod: str) -> bool:
    return "running" in _container(ns, pod).get("state", {})


def _last_message(ns: Namespace, pod: str) -> str:
    status = _container(ns, pod)
    for state in ("state", "lastState"):
        message = status.get(state, {}).get("terminated", {}).get("message")
        if message:
            return str(message)
    return ""


def test_deleted_job_leaves_nothing(ns: Namespace, thin_image: str) -> None:
    """Deleting a running job ends its ranks long before the grace period and takes all children along."""
    ns.apply(command_job("deleted", image=thin_image, script=WAITING))
    _in_round(ns, "deleted", 1, 0, 1)
    ns.kubectl("delete", "xeontrainjob", "deleted")
    # Far below the grace period of 120 s, so that only an orderly end passes.
    ns.wait("pods gone", lambda: not ns.list("pods"), timeout_seconds=30)
    for kind in ("statefulsets", "services", "networkpolicies"):
        assert ns.wait(f"no {kind}", lambda kind=kind: not ns.list(kind), timeout_seconds=30)


def test_uninstalling_the_chart_leaves_running_jobs_alone(ns: Namespace, thin_image: str) -> None:
    """`helm uninstall` keeps the resource, the job and its ranks; a new install passes `helm test` and picks
    the job up again."""
    ns.apply(command_job("survives", image=thin_image, script=WAITING))
    _in_round(ns, "survives", 1, 0, 1)
    uids = {pod["metadata"]["uid"] for pod in ns.list("pods")}
    ns.cluster.helm("uninstall", "xeontrain", "-n", OPERATOR_NAMESPACE, "--wait")
    assert ns.job("survives")["spec"]["workers"] == 2
    assert {pod["metadata"]["uid"] for pod in ns.list("pods")} == uids
    ns.cluster.helm("install", "xeontrain", CHART, "-n", OPERATOR_NAMESPACE)
    wait_for_operator(ns.cluster)
    ns.cluster.helm("test", "xeontrain", "-n", OPERATOR_NAMESPACE)
    _go_on(ns, "survives", 0, 1)
    job = ns.wait_for_phase("survives", "Succeeded")
    assert _restarts(job, "failures") == 0
    assert _restarts(job, "preemptions") == 0
