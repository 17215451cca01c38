"""Workers, launchers and ranks that go in each phase of a job, on real kubelets; many jobs side by side."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.e2e.jobs import Document, Namespace, small_job
from tests.e2e.test_joins import _launcher_of
from tests.e2e.test_lifecycle import STORAGE, WAITING, _go_on, _in_round, _restarts

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

# Round 1 waits for its end, a later one succeeds at once.
ONE_ROUND = WAITING.replace("while not", "while number == '1' and not")
DIES = (
    "import os, signal, time\n"
    "if os.environ['XEONTRAIN_ROUND'] == '1' and os.environ['RANK'] == '1':\n"
    "    time.sleep(1)\n"
    "    {how}\n"
    # Longer than the operator's polls are apart, so that it hears the cause from worker 0.
    "time.sleep(9)\n"
)
OUT_OF_MEMORY = "held = [bytearray(1 << 20) for _ in range(1 << 12)]"
TRACEBACK = "raise ValueError('a label that is no label')"


@pytest.fixture(scope="module")
def crowd(installed: Cluster, thin_image: str) -> Iterator[Namespace]:
    """The jobs of this module, all applied at once."""
    ns = Namespace(installed, f"replaced-{secrets.token_hex(3)}")
    installed.kubectl("create", "namespace", ns.name)
    scripts = {
        "mid-step": WAITING,
        "two-pods": WAITING,
        "launcher": ONE_ROUND,
        "verdict": ONE_ROUND,
        "rank-9": DIES.format(how="os.kill(os.getpid(), signal.SIGKILL)"),
        "rank-oom": DIES.format(how=OUT_OF_MEMORY),
        "rank-error": DIES.format(how=TRACEBACK),
    }
    more: dict[str, Document] = {"verdict": STORAGE}
    ns.apply(
        *(
            small_job(name, image=thin_image, script=script, **more.get(name, {}))
            for name, script in scripts.items()
        )
    )
    yield ns
    ns.kubectl("delete", "xeontrainjobs", "--all", "--wait=false")
    ns.wait("no pods", lambda: not ns.list("pods"), timeout_seconds=90)
    installed.kubectl("delete", "namespace", ns.name, "--wait=false")


def counted(job: Document) -> tuple[int, int]:
    """Failures and preemptions."""
    return _restarts(job, "failures"), _restarts(job, "preemptions")


@pytest.mark.parametrize(
    ("job", "how"),
    [
        ("rank-9", "signal 9"),
        (
            "rank-oom",
            "signal 9: ended by SIGKILL: the container ran out of memory. Raise spec.resources.memory",
        ),
        ("rank-error", "exit code 1: ValueError: a label that is no label"),
    ],
)
def test_a_rank_that_dies_is_named_with_its_cause(crowd: Namespace, job: str, how: str) -> None:
    """One failure, with worker, rank, how it ended and the line that matters; all start again in place."""
    ended = crowd.wait_for_phase(job, "Succeeded")
    assert counted(ended) == (1, 0)
    said = ended["status"]["restarts"]["lastReason"]
    assert "Round 1: worker 1 on node node-system, rank 1, " in said
    assert how in said


def test_worker_0_replaced_mid_step(crowd: Namespace) -> None:
    """It coordinates, and its place is taken by a pod that knows nothing; the round after it has all."""
    _in_round(crowd, "mid-step", 1, 0, 1)
    crowd.kubectl("delete", "pod", "mid-step-0", "--wait=false")
    crowd.wait_for_log("mid-step-1", "rank 1 of 2 round ")
    crowd.wait("round 2 in worker 1", lambda: _rounds(crowd, "mid-step-1") == 2, timeout_seconds=120)
    crowd.wait("its rank in worker 0", lambda: _rounds(crowd, "mid-step-0") == 1, timeout_seconds=60)
    _go_on(crowd, "mid-step", 0, 1)
    assert counted(crowd.wait_for_phase("mid-step", "Succeeded")) == (0, 1)


def test_two_pods_of_one_worker(crowd: Namespace) -> None:
    """A pod deleted by force may still run when the next one starts: the later one counts."""
    _in_round(crowd, "two-pods", 1, 0, 1)
    crowd.kubectl("delete", "pod", "two-pods-1", "--force", "--grace-period=0")
    _in_round(crowd, "two-pods", 2, 0, 1)
    _go_on(crowd, "two-pods", 0, 1)
    assert counted(crowd.wait_for_phase("two-pods", "Succeeded")) == (0, 1)


def test_a_launcher_that_is_killed(crowd: Namespace) -> None:
    """Process 1 dies by signal 9, and the container with it: one failure of the container, none of a rank."""
    _in_round(crowd, "launcher", 1, 0, 1)
    pod = crowd.get("pod", "launcher-0")
    assert pod is not None
    os.kill(_launcher_of(pod["metadata"]["uid"]), signal.SIGKILL)
    ended = crowd.wait_for_phase("launcher", "Succeeded")
    assert counted(ended) == (1, 0)
    said = ended["status"]["restarts"]["lastReason"]
    assert "Worker 0: its container ended whole" in said
    assert "137" in said


def test_worker_0_replaced_at_the_verdict(crowd: Namespace) -> None:
    """Its pod is deleted in the moment in which the ranks end. Either the verdict was there, and then no rank
    runs again; or the round was cut short, and then the next one makes it."""
    _in_round(crowd, "verdict", 1, 0, 1)
    _go_on(crowd, "verdict", 1, 0)
    crowd.kubectl("delete", "pod", "verdict-0", "--grace-period=1", "--wait=false")
    ended = crowd.wait_for_phase("verdict", "Succeeded")
    assert _restarts(ended, "failures") == 0


def test_worker_0_replaced_before_the_first_round(crowd: Namespace, thin_image: str) -> None:
    """Worker 1 has no node yet; the pod that waited for it goes, and its successor coordinates when there is
    room for both."""
    job = small_job("early", image=thin_image, script=WAITING)
    placement = {**job["spec"]["placement"], "nodeSelector": {crowd.name: "early"}, "spread": "OnePerNode"}
    job["spec"]["placement"] = placement
    crowd.cluster.kubectl("label", "node", "node-system", f"{crowd.name}=early")
    crowd.apply(job)
    crowd.wait_for_log("early-0", "worker 0 of 2")
    # It has nothing to save: its place is free at once, and worker 1 may be the one that takes it.
    crowd.kubectl("delete", "pod", "early-0", "--timeout=20s")
    crowd.cluster.kubectl("label", "node", "node-a", f"{crowd.name}=early")
    _in_round(crowd, "early", 1, 0, 1)
    _go_on(crowd, "early", 0, 1)
    assert counted(crowd.wait_for_phase("early", "Succeeded")) == (0, 1)


def _rounds(ns: Namespace, pod: str) -> int:
    """How many rounds the pod's rank has begun, by its log."""
    return str(ns.cluster.kubectl("-n", ns.name, "logs", pod, check=False).stdout).count(" of 2 round ")
