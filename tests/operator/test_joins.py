"""A worker that does not join: real launchers, the real operator between them and a real API server.

The test is the kubelet: it starts the launchers as processes on addresses of the loopback interface.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from xeontrain_operator import constants as c

from tests.cluster.namespaces import InsideProcess
from tests.operator.harness import ROOT, Kubelet, Place, Team, job, wait_for

pytestmark = pytest.mark.cluster

TIMEOUT_SECONDS = 10
QUICK = {"polling": {"minIntervalSeconds": 1.0}}
ZERO, ONE, NEXT = "127.0.1.10", "127.0.1.11", "127.0.1.12"


class Pods:
    """The launchers of one job, each in a pod that the StatefulSet controller has made."""

    def __init__(self, team: Team, name: str, folder: Path) -> None:
        self._team = team
        self._name = name
        self._folder = folder
        self._kubelet = Kubelet(team, name)
        self._processes: list[InsideProcess] = []

    def start(self, worker: int, *, ip: str, coordinator: str = ZERO) -> str:
        """Starts the worker's launcher and reports that it runs; the UID of its pod."""
        pod = self._kubelet.pod(worker)
        uid = str(pod["metadata"]["uid"])
        folder = self._folder / uid
        folder.mkdir()
        with (folder / "output").open("w") as output:
            self._processes.append(
                self._team.control_plane.popen(
                    [sys.executable, "-m", "xeontrain_trainer.launcher", "--", "sleep", "600"],
                    env=self._environ(pod, worker=worker, ip=ip, coordinator=coordinator, folder=folder),
                    stdout=output,
                    stderr=output,
                )
            )
        self._kubelet.runs(worker, ip=ip)
        return uid

    def _environ(
        self, pod: dict[str, Any], *, worker: int, ip: str, coordinator: str, folder: Path
    ) -> dict[str, str]:
        """What the pod says, with what a kubelet fills in."""
        container = pod["spec"]["containers"][0]
        said = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
        filled_in = {
            c.ENV_POD_NAME: f"{self._name}-{worker}",
            c.ENV_POD_UID: pod["metadata"]["uid"],
            c.ENV_POD_IP: ip,
            c.ENV_NODE_NAME: "node",
            c.ENV_WORKER: str(worker),
            c.ENV_CPU_LIMIT_MILLIS: "1000",
            c.ENV_COORDINATOR: coordinator,
            c.ENV_STATE_DIR: str(folder / "state"),
            c.ENV_TERMINATION_LOG: str(folder / "termination-log"),
        }
        return {**said, **filled_in, "PYTHONPATH": f"{ROOT}/trainer"}

    def end(self) -> None:
        """Ends all launchers."""
        for process in self._processes:
            process.kill()
            process.wait(30)


@contextmanager
def pods_of(team: Team, name: str, folder: Path, **spec: Any) -> Iterator[Pods]:
    """A job of two workers that has its pods."""
    team.apply(job(name, workers=2, distributed={"timeoutSeconds": TIMEOUT_SECONDS}, **spec))
    pods = Pods(team, name, folder)
    try:
        yield pods
    finally:
        pods.end()


def _message(team: Team, name: str, type_: str = "Running") -> str:
    return str(team.condition(name, type_).get("message"))


def test_a_worker_that_cannot_find_worker_0_is_named_replaced_and_joins(
    operators: Place, team: Team, tmp_path: Path
) -> None:
    """Its launcher's own words within seconds; after timeoutSeconds one failure and the end of its pod; the
    next pod joins, and all train."""
    with operators.operator(**QUICK), pods_of(team, "lost", tmp_path) as pods:
        pods.start(0, ip=ZERO)
        first = pods.start(1, ip=ONE, coordinator="no-such-worker.")
        wait_for(
            lambda: "worker 1: the name no-such-worker. is not known" in _message(team, "lost") or None,
            what=f"why worker 1 is missing: {team.status('lost')}",
        )
        assert team.condition("lost", "Running")["reason"] == "WaitingForWorkers"
        # No kubelet has it to end: the API server takes it away at once, and the set makes another.
        wait_for(
            lambda: (
                (team.get("pod", "lost-1") or {}).get("metadata", {}).get("uid") not in (None, first) or None
            ),
            what=f"another worker 1: {team.status('lost')}",
        )
        assert team.status("lost")["restarts"]["failures"] == 1
        assert "WorkerNotJoined" in team.events("lost")
        said = team.status("lost")["restarts"]["lastReason"]
        assert said.startswith("Worker 1 (pod lost-1 on node ")
        assert "NameNotFound" in said
        assert "Check the cluster's DNS" in said
        pods.start(1, ip=NEXT)
        status = team.phase("lost", "Running")
        assert (status["restarts"]["failures"], status["restarts"]["preemptions"]) == (1, 0)


def test_too_many_such_failures_end_the_job(operators: Place, team: Team, tmp_path: Path) -> None:
    """With the worker, its node, the reason and the remedy."""
    policy = {"backoffLimit": 0}
    with operators.operator(**QUICK), pods_of(team, "never", tmp_path, runPolicy=policy) as pods:
        pods.start(0, ip=ZERO)
        pods.start(1, ip=ONE, coordinator="127.0.1.99")
        team.phase("never", "Failed")
        failed = team.condition("never", "Failed")
        assert failed["reason"] == "BackoffLimitExceeded"
        for word in ("Worker 1 (pod never-1", "Refused: 127.0.1.99 port 29400", "network policies"):
            assert word in failed["message"]
        team.gone("statefulset", "never")


def test_a_child_that_is_refused_beside_a_live_set_is_named(operators: Place, team: Team) -> None:
    """A quota forbids the Service that somebody has deleted: a condition says so, until it is there again."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-services"},
        "spec": {"hard": {"count/services": "0"}},
    }
    with operators.operator():
        team.apply(job("narrow"))
        team.exists("statefulset", "narrow")
        team.apply(quota)
        wait_for(
            lambda: (team.exists("resourcequota", "no-services").get("status") or {}).get("hard"),
            what="the quota",
        )
        team.kubectl("delete", "service", "narrow")
        wait_for(
            lambda: team.condition("narrow", "ChildrenReady").get("status") == "False" or None,
            what=f"a word about the Service: {json.dumps(team.status('narrow'))}",
        )
        found = team.condition("narrow", "ChildrenReady")
        assert found["reason"] == "RejectedByAPIServer"
        assert "refuses to create the Service narrow (403 Forbidden)" in found["message"]
        assert "exceeded quota" in found["message"]
        assert team.condition("narrow", "Accepted")["status"] == "True"
        team.kubectl("delete", "resourcequota", "no-services")
        wait_for(
            lambda: team.condition("narrow", "ChildrenReady").get("status") == "True" or None,
            what="the Service to be made",
            seconds=90,
        )
        assert team.get("service", "narrow") is not None
