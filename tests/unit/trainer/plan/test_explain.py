"""`python -m xeontrain_trainer.plan`: what it prints is what the launcher of that pod does."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from xeontrain_trainer.launcher.layout import Layout
from xeontrain_trainer.launcher.settings import Settings
from xeontrain_trainer.machine import format_cpus
from xeontrain_trainer.plan import surroundings
from xeontrain_trainer.plan.__main__ import first_cpus, main

from tests.unit.trainer.launcher.loopback import Gang
from tests.unit.trainer.machines import build, tree_of, write


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="auto"),
        pytest.param({"RANKS_PER_WORKER": 1, "CCL_WORKERS_PER_RANK": 2}, id="as-asked"),
        pytest.param({"CPU_LIMIT_MILLIS": 1000}, id="limit"),
        pytest.param({"PINNING": "Disabled", "INTERFACE": "lo"}, id="not-pinned"),
    ],
)
def test_in_a_pod_it_is_the_launchers_plan(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    settings: dict[str, Any],
) -> None:
    gang = Gang(tmp_path, workers=2, command=["true"], **settings)
    environ = {**gang.environ(gang.make_pod(0)), "FI_PROVIDER": "mine"}
    plan = Layout(Settings.from_environ(environ), environ=environ).plan
    assert plan is not None
    monkeypatch.setattr("os.environ", environ)
    assert main([]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["warnings"] == list(plan.warnings)
    assert document["bound"] == plan.bound
    assert [
        (rank["rank"], tuple(rank["computeCpus"]), tuple(rank["commCpus"]), rank["env"])
        for rank in document["ranks"]
    ] == [(r.local_rank, r.compute_cpus, r.comm_cpus, dict(r.environment)) for r in plan.ranks]


def test_in_a_pod_it_refuses_what_the_launcher_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The loopback between several workers: only the pod's own interface tells that it leads nowhere."""
    monkeypatch.setattr(surroundings, "find_interface", lambda address: "eth0")
    monkeypatch.setattr(surroundings, "interface_names", lambda: ("eth0", "lo"))
    gang = Gang(tmp_path, workers=2, command=["true"], INTERFACE="lo")
    environ = gang.environ(gang.make_pod(0))
    refusal = Layout(Settings.from_environ(environ), environ=environ).refusal
    monkeypatch.setattr("os.environ", environ)
    assert main([]) == 78
    assert refusal is not None
    assert capsys.readouterr().err.strip() == refusal.message


def test_it_runs_on_its_own(tmp_path: Path) -> None:
    """As `kubectl exec` would start it; a sentence on stderr and the contract's code without a plan."""
    write(tmp_path, tree_of(build(cores=2), build(cores=2)))
    command = [sys.executable, "-m", "xeontrain_trainer.plan", "--sysfs", str(tmp_path), "--ranks"]
    good, bad = (subprocess.run([*command, n], capture_output=True, text=True, check=False) for n in "23")
    assert [rank["computeCpus"] for rank in json.loads(good.stdout)["ranks"]] == [[0], [1]]
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (78, "", 1)


def test_the_environment_may_come_by_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job's variables are looked at, not taken on by the process that plans."""
    write(tmp_path, tree_of(build(cores=4), build(cores=4)))
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"OMP_NUM_THREADS": "3"})))
    assert main(["--environ", "--sysfs", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["ranks"][0]["env"]["OMP_NUM_THREADS"] == "3"


@pytest.mark.parametrize(
    ("number", "cpus"),
    [
        pytest.param(4, "0-1,16-17", id="whole-cores"),
        pytest.param(3, "0-1,16", id="half-a-core"),
        pytest.param(16, "0-7,16-23", id="a-whole-node"),
        pytest.param(18, "0-8,16-24", id="more-than-a-node"),
        pytest.param(99, "0-31", id="more-than-there-are"),
    ],
)
def test_first_cpus(number: int, cpus: str) -> None:
    """As the kubelet's static policy on an empty node: nodes, then cores, then threads."""
    assert format_cpus(first_cpus(build(sockets=2, cores=8, threads=2), number=number)) == cpus
