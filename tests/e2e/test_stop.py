"""SIGTERM to pods on real kubelets: ranks save together, and what does not end is killed in time."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.e2e.jobs import Namespace, condition, small_job, training_job
from tests.e2e.test_lifecycle import WAITING, _go_on, _in_round, _restarts

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

# Saves for two seconds when it is asked to, and ends with code 0 as many scripts do.
SAVES = (
    "import os, signal, sys, time\n"
    "def save(*_):\n"
    "    time.sleep(2)\n"
    "    print('saved', flush=True)\n"
    "    sys.exit(0)\n"
    "signal.signal(signal.SIGTERM, save)\n"
) + WAITING
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAITING
SHORT = {"runPolicy": {"gracePeriodSeconds": 20}}


@pytest.fixture(scope="module")
def crowd(installed: Cluster, thin_image: str) -> Iterator[Namespace]:
    """The jobs of this module, all applied at once."""
    ns = Namespace(installed, f"stop-{secrets.token_hex(3)}")
    installed.kubectl("create", "namespace", ns.name)
    ns.apply(
        small_job("drained", image=thin_image, script=SAVES),
        small_job("suspended", image=thin_image, script=SAVES),
        small_job("stubborn", image=thin_image, script=STUBBORN, **SHORT),
    )
    yield ns
    ns.kubectl("delete", "xeontrainjobs", "--all", "--wait=false")
    ns.wait("no pods", lambda: not ns.list("pods"), timeout_seconds=90)
    installed.kubectl("delete", "namespace", ns.name, "--wait=false")


def test_all_save_and_an_exit_0_is_no_success(crowd: Namespace) -> None:
    """One pod is drained: the rank of the other has saved too, no failure is counted, and the pod that takes
    the place makes the next round."""
    _in_round(crowd, "drained", 1, 0, 1)
    _evict(crowd, "drained-1")
    log = crowd.wait_for_log("drained-0", "round 1 has ended: a worker was asked to stop")
    assert "saved" in log
    _in_round(crowd, "drained", 2, 0, 1)
    _go_on(crowd, "drained", 0, 1)
    job = crowd.wait_for_phase("drained", "Succeeded")
    assert (_restarts(job, "failures"), _restarts(job, "preemptions")) == (0, 1)
    assert "(EvictionByEvictionAPI: " in job["status"]["restarts"]["lastReason"]


def _evict(ns: Namespace, pod: str) -> None:
    """What `kubectl drain` does to each pod of a node."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": ns.name},
    }
    path = f"/api/v1/namespaces/{ns.name}/pods/{pod}/eviction"
    ns.kubectl("create", "--raw", path, "-f", "-", input=json.dumps(eviction))


def test_suspend_lets_all_save_and_nobody_waits(crowd: Namespace) -> None:
    """All pods are asked at once, and are gone as soon as their ranks have saved."""
    _in_round(crowd, "suspended", 1, 0, 1)
    crowd.kubectl(
        "patch", "xtj", "suspended", "--type=merge", "-p", '{"spec":{"runPolicy":{"suspend":true}}}'
    )
    log = crowd.kubectl("logs", "suspended-0", "--follow")
    assert "saved" in log
    assert "round 1 has ended: a worker was asked to stop" in log
    crowd.wait("no pods", lambda: not _pods(crowd, "suspended"), timeout_seconds=30)
    job = crowd.wait_for_phase("suspended", "Suspended")
    assert (_restarts(job, "failures"), _restarts(job, "preemptions")) == (0, 0)


def test_ranks_that_do_not_listen_are_killed_before_the_kubelet_kills_all(crowd: Namespace) -> None:
    """10 s before the grace period is over, so that the launcher still tells the gang."""
    _in_round(crowd, "stubborn", 1, 0, 1)
    started = time.monotonic()
    crowd.kubectl("delete", "xtj", "stubborn", "--wait=false")
    log = crowd.kubectl("logs", "stubborn-0", "--follow")
    assert "ranks that still run are killed" in log
    assert "round 1 has ended: a worker was asked to stop" in log
    crowd.wait("no pods", lambda: not _pods(crowd, "stubborn"), timeout_seconds=30)
    assert time.monotonic() - started >= 9


def _pods(ns: Namespace, job: str) -> list[str]:
    names = [pod["metadata"]["name"] for pod in ns.list("pods")]
    return [name for name in names if name.startswith(f"{job}-")]


def test_a_drained_training_goes_on_at_the_step_it_had_reached(
    ns: Namespace, tiny_data: None, trainer_image: str
) -> None:
    """It saves inside the grace period, and the pod that takes the place loses no step."""
    parameters = {"batchSize": 4, "epochs": 50, "maxLength": 16}
    job = training_job("goes-on", hyperparameters=parameters)
    job["spec"]["storage"] = {"size": "1Gi"}
    ns.apply(job)
    ns.wait_for_log("goes-on-0", "step 1/200")
    ns.kubectl("delete", "pod", "goes-on-0", "--wait=false")
    log = ns.wait_for_log("goes-on-0", "goes on from the checkpoint of step ")
    step = int(re.findall(r"goes on from the checkpoint of step (\d+)", log)[0])
    assert 1 <= step < 200
    ended = ns.wait_for_phase("goes-on", "Succeeded")
    assert (_restarts(ended, "failures"), _restarts(ended, "preemptions")) == (0, 1)
    assert ended["status"]["result"]["metrics"]["steps"] == 200
    inexact = condition(ended, "ResumeInexact")
    assert inexact is None or inexact["status"] == "False"
