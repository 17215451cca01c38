"""A job's way to its end, with the test as the kubelet and as worker 0's launcher.

The API server, its validation and its controllers are real; no node is there, so the test reports what
containers do, as a kubelet would.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.operator.harness import (
    Kubelet,
    Operator,
    Team,
    job,
    result_document,
    training_job,
    wait_for,
)

pytestmark = pytest.mark.cluster


def _running(team: Team, name: str, **spec: Any) -> tuple[str, Kubelet]:
    """A job whose two workers run; returns its UID."""
    team.apply(training_job(name, workers=2, **spec))
    uid = team.exists("xtj", name)["metadata"]["uid"]
    kubelet = Kubelet(team, name)
    for worker in range(2):
        kubelet.runs(worker)
    return uid, kubelet


def _ended_and_cleaned(team: Team, name: str, phase: str) -> dict[str, Any]:
    status = team.phase(name, phase)
    team.gone("statefulset", name)
    for worker in range(2):
        team.end_pod(f"{name}-{worker}")
    return status


def test_success_is_read_from_the_termination_message(operator: Operator, team: Team) -> None:
    """The document in the pod's status: Succeeded with its metrics, pods and set go, the rest stays, and
    nothing is ever built again."""
    uid, kubelet = _running(team, "wins")
    kubelet.ended(0, result_document(uid))
    status = _ended_and_cleaned(team, "wins", "Succeeded")
    assert "0.97" in json.dumps(status["result"])
    assert status["completionTime"]
    assert team.condition("wins", "Succeeded")["status"] == "True"
    for kind in ("service", "configmap", "networkpolicy"):
        assert team.get(kind, "wins") is not None
    before = operator.reconciles()
    team.kubectl("label", "xtj", "wins", "poke=1")
    wait_for(lambda: operator.reconciles() > before or None, what="a reconcile")
    assert team.get("statefulset", "wins") is None
    assert team.list("pods", selector="xeontrain.dev/job-name=wins") == []
    assert "Succeeded" in " ".join(team.events("wins"))


def test_document_in_the_last_state_counts(operator: Operator, team: Team) -> None:
    """The kubelet has started the parked container again: its document stands in `lastState`."""
    uid, kubelet = _running(team, "parked")
    kubelet.runs(0, restarts=1, last=result_document(uid))
    _ended_and_cleaned(team, "parked", "Succeeded")


def test_exit_code_alone_decides_nothing(operator: Operator, team: Team) -> None:
    """Exit 0 without a document, with another job's, or with half of one: not a success."""
    uid, kubelet = _running(team, "silent")
    for message in ("", result_document("another"), result_document(uid)[:-5], "null"):
        before = operator.reconciles()
        kubelet.ended(0, message)
        wait_for(lambda before=before: operator.reconciles() > before or None, what="a reconcile")
        assert team.status("silent")["phase"] not in ("Succeeded", "Failed")
    kubelet.ended(0, result_document(uid))
    _ended_and_cleaned(team, "silent", "Succeeded")


def test_failure_names_its_cause(operator: Operator, team: Team) -> None:
    """A failed verdict: Failed, with the rank's own last line."""
    failure = {
        "worker": 1,
        "rank": 1,
        "exitCode": 65,
        "signal": None,
        "reason": "UserError",
        "message": "train.csv has no column 'label'",
    }
    uid, kubelet = _running(team, "loses")
    kubelet.ended(0, result_document(uid, outcome="Failed", failures=1, failure=failure), exit_code=1)
    _ended_and_cleaned(team, "loses", "Failed")
    assert "no column 'label'" in team.condition("loses", "Failed")["message"]
    assert any("Failed" in reason for reason in team.events("loses"))


@pytest.mark.parametrize("policy", ["All", "None"])
def test_what_goes_by_the_policy(operator: Operator, team: Team, policy: str) -> None:
    """All: everything but the job. None: the pods stay, and one that is replaced only parks."""
    name = f"policy-{policy.lower()}"
    uid, kubelet = _running(team, name, runPolicy={"cleanPodPolicy": policy})
    kubelet.runs(0, restarts=1, last=result_document(uid))
    team.phase(name, "Succeeded")
    if policy == "All":
        _ended_and_cleaned(team, name, "Succeeded")
        for kind in ("service", "configmap", "networkpolicy"):
            team.gone(kind, name)
        return

    def parks() -> bool | None:
        template = team.exists("statefulset", name)["spec"]["template"]["spec"]
        env = {item["name"]: item.get("value") for item in template["containers"][0]["env"]}
        return env.get("XEONTRAIN_PARK_ONLY") == "1" or None

    wait_for(parks, what="the template to park")
    assert team.get("pod", f"{name}-0") is not None


def test_time_to_live(operator: Operator, team: Team) -> None:
    """A finished job is deleted when its time is over, and all that is left with it."""
    uid, kubelet = _running(team, "brief", runPolicy={"ttlSecondsAfterFinished": 3})
    kubelet.ended(0, result_document(uid))
    team.gone("statefulset", "brief")
    for worker in range(2):
        team.end_pod(f"brief-{worker}")
    team.gone("xtj", "brief")
    team.gone("service", "brief")


def test_job_made_again_under_its_name(operator: Operator, team: Team) -> None:
    """Deleted and made again at once: the new job waits for the old pods and gets children of its own."""
    first, _ = _running(team, "twice")
    team.kubectl("delete", "xtj", "twice")
    team.apply(training_job("twice", workers=2))
    second = team.exists("xtj", "twice")["metadata"]["uid"]
    assert second != first

    def mine() -> bool | None:
        for worker in range(2):
            _kill_pod_of(team, f"twice-{worker}", uid=first)
        found = team.get("statefulset", "twice")
        return (found is not None and found["metadata"]["labels"]["xeontrain.dev/job-uid"] == second) or None

    wait_for(mine, what="a set of the new job")


def _kill_pod_of(team: Team, name: str, *, uid: str) -> None:
    pod = team.get("pod", name)
    if pod is not None and pod["metadata"]["labels"]["xeontrain.dev/job-uid"] == uid:
        team.end_pod(name)


_LAUNCHER = """
import http.server, json, sys
answers = json.load(sys.stdin)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = answers.get(self.path)
        self.send_response(200 if body is not None else 404)
        self.end_headers()
        self.wfile.write((body or '').encode())
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer.allow_reuse_address = True
server = http.server.ThreadingHTTPServer(('127.0.0.1', 29400), Handler)
print('ready', flush=True)
server.serve_forever()
"""


@contextmanager
def _launcher(control_plane: ControlPlane, status: str, *, log: str | None = None) -> Iterator[None]:
    """A server at worker 0's address that answers as told, whatever that is."""
    answers = {"/status": status, **({"/log": log} if log is not None else {})}
    process = control_plane.popen(
        [sys.executable, "-c", _LAUNCHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin as stdin, process.stdout as stdout:
        try:
            stdin.write(json.dumps(answers))
            stdin.close()
            assert stdout.readline() == "ready\n"
            yield
        finally:
            process.kill()
            process.wait(30)


def _status(uid: str, pod_uid: str, **changes: Any) -> dict[str, Any]:
    cpu = {
        "model": "Intel(R) Xeon(R) Platinum 8480+",
        "instructionSet": "AMX_BF16",
        "cpus": "0-3",
        "ranks": 1,
        "coresPerRank": 3,
        "commCoresPerRank": 1,
        "exclusive": "True",
    }
    progress = {
        "step": 40,
        "totalSteps": 160,
        "epoch": 0.25,
        "loss": 0.5,
        "samplesPerSecond": 31.5,
        "etaSeconds": 90,
        "precision": "BF16",
        "backend": "Gloo",
        "time": "2026-11-30T12:00:00Z",
    }
    members = [
        {"worker": worker, "podUid": pod_uid if worker == 0 else "other", "state": "Running", "round": 1}
        | {"cpu": cpu, "lastSeenSeconds": 0.5}
        for worker in range(2)
    ]
    return {
        "contract": 1,
        "jobUid": uid,
        "worker": 0,
        "podUid": pod_uid,
        "state": "Running",
        "round": 1,
        "members": members,
        "missing": [],
        "cpu": cpu,
        "progress": progress,
        "failures": [],
        "failuresCounted": 0,
        "verdict": None,
        **changes,
    }


def test_progress_is_asked_from_worker_zero(operator: Operator, team: Team) -> None:
    """What worker 0's launcher says stands in the status and in the columns of `kubectl get`; asking it
    again with nothing new writes nothing."""
    uid, kubelet = _running(team, "asked")
    pod_uid = kubelet.pod(0)["metadata"]["uid"]
    with _launcher(team.control_plane, json.dumps(_status(uid, pod_uid))):
        wait_for(lambda: team.status("asked").get("progress"), what="progress")
        assert team.status("asked")["progress"]["step"] == 40
        row = team.kubectl("get", "xtj", "asked")
        assert "25" in row
        assert "31.5" in row
        writes = operator.writes()
        asked = operator.metrics()['xeontrain_launcher_polls_total{result="answered"}']
        wait_for(
            lambda: (
                operator.metrics()['xeontrain_launcher_polls_total{result="answered"}'] >= asked + 2 or None
            ),
            what="two more questions",
        )
        assert operator.writes() == writes


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        pytest.param(lambda uid, pod: "<html>", "invalid", id="not JSON"),
        pytest.param(lambda uid, pod: json.dumps(_status("another", pod)), "stranger", id="of another job"),
        pytest.param(lambda uid, pod: json.dumps(_status(uid, "another")), "stranger", id="of another pod"),
        pytest.param(
            lambda uid, pod: json.dumps(_status(uid, pod, progress={"step": -1})), "invalid", id="nonsense"
        ),
        pytest.param(lambda uid, pod: " " * (2 << 20), "too-large", id="too long"),
    ],
)
def test_whatever_answers_does_no_harm(
    operator: Operator, team: Team, answer: Any, cause: str, request: pytest.FixtureRequest
) -> None:
    """A wrong answer is counted and makes no progress; the job lives on."""
    name = f"odd-{request.node.callspec.id.replace(' ', '-').lower()}"
    uid, kubelet = _running(team, name)
    pod_uid = kubelet.pod(0)["metadata"]["uid"]
    sample = f'xeontrain_launcher_polls_total{{result="{cause}"}}'
    with _launcher(team.control_plane, answer(uid, pod_uid)):
        wait_for(lambda: operator.metrics().get(sample), what=f"an answer to be {cause}")
    assert "progress" not in team.status(name)
    kubelet.ended(0, result_document(uid))
    _ended_and_cleaned(team, name, "Succeeded")


def test_log_of_the_run_is_kept(operator: Operator, team: Team) -> None:
    """The tail of worker 0's log, from its launcher, in a ConfigMap that goes with the job."""
    uid, kubelet = _running(team, "talks")
    pod_uid = kubelet.pod(0)["metadata"]["uid"]
    status = json.dumps(_status(uid, pod_uid))
    with _launcher(team.control_plane, status, log="epoch 1\naccuracy 0.97\n"):
        kubelet.runs(0, restarts=1, last=result_document(uid))
        _ended_and_cleaned(team, "talks", "Succeeded")
    kept = [
        found
        for found in team.list("configmaps", selector=f"xeontrain.dev/job-uid={uid}")
        if "accuracy 0.97" in json.dumps(found.get("data"))
    ]
    assert [owner["uid"] for found in kept for owner in found["metadata"]["ownerReferences"]] == [uid]


def test_pods_that_the_cluster_refuses(operator: Operator, team: Team) -> None:
    """A quota on pods stops the set's controller, which says so only in events: they reach a condition."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"requests.cpu": "500m"}},
    }
    team.apply(quota)
    wait_for(lambda: (team.exists("resourcequota", "few").get("status") or {}).get("hard"), what="the quota")
    try:
        team.apply(job("quota"))
        wait_for(
            lambda: "exceeded quota" in json.dumps(team.status("quota").get("conditions", [])) or None,
            what=f"the quota in a condition: {team.status('quota')}",
        )
    finally:
        team.kubectl("delete", "resourcequota", "few")
