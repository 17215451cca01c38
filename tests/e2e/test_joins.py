"""A worker whose network fails, on real kubelets: named, replaced, and the job goes on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.jobs import Namespace, command_job, condition
from tests.e2e.test_lifecycle import WAITING, _go_on, _in_round, _restarts

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def _launcher_of(pod_uid: str) -> int:
    """The process id, as this machine sees it, of the launcher in a pod."""
    variable = f"XEONTRAIN_POD_UID={pod_uid}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            argv = (folder / "cmdline").read_bytes().split(b"\0")
            environ = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if variable in environ and b"--" in argv and any(b"launcher" in word for word in argv):
            return int(folder.name)
    raise AssertionError(f"no launcher of pod {pod_uid} on this machine")


def _cut_off(pod_uid: str) -> None:
    """From now on nothing that the pod sends to port 29400 arrives: as a firewall that drops packets."""
    drop = ["iptables", "-A", "OUTPUT", "-p", "tcp", "--dport", "29400", "-j", "DROP"]
    subprocess.run(["nsenter", "-t", str(_launcher_of(pod_uid)), "-n", *drop], check=True)


def test_a_worker_that_is_cut_off_is_named_and_replaced(ns: Namespace, thin_image: str) -> None:
    """Its launcher lives and the operator reaches it, but it does not reach worker 0: that is said in its own
    words, one failure is counted, its pod goes, and the next one trains with the others."""
    job = command_job("cut-off", image=thin_image, script=WAITING, distributed={"timeoutSeconds": 10})
    ns.apply(job)
    _in_round(ns, "cut-off", 1, 0, 1)
    pod = ns.get("pod", "cut-off-1")
    assert pod is not None
    _cut_off(pod["metadata"]["uid"])
    ns.wait(
        "one failure",
        lambda: _restarts(ns.job("cut-off"), "failures") == 1,
        timeout_seconds=90,
    )
    said = ns.job("cut-off")["status"]["restarts"]["lastReason"]
    node = pod["spec"]["nodeName"]
    assert f"Worker 1 (pod cut-off-1 on node {node}) has not joined the others" in said
    assert "TimedOut" in said
    assert "network policies and firewalls" in said
    _in_round(ns, "cut-off", 2, 0, 1)
    running = condition(ns.job("cut-off"), "Running")
    assert running is not None
    _go_on(ns, "cut-off", 0, 1)
    ended = ns.wait_for_phase("cut-off", "Succeeded")
    assert (_restarts(ended, "failures"), _restarts(ended, "preemptions")) == (1, 0)
