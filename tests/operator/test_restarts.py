"""An operator that dies, or is away, loses nothing and leaves nothing stuck."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.operator.harness import Kubelet, Place, Team, job, place, result_document, training_job, wait_for

pytestmark = pytest.mark.cluster

CHILDREN = ("service", "configmap", "networkpolicy", "statefulset")


@pytest.fixture
def operators(with_definition: ControlPlane, tmp_path: Path) -> Iterator[Place]:
    """A namespace a test: each starts and ends operators of its own."""
    with place(with_definition, tmp_path) as found:
        yield found


def _uids(team: Team, *names: str) -> dict[tuple[str, str], str]:
    found = ((kind, name, team.get(kind, name)) for kind in CHILDREN for name in names)
    return {(kind, name): body["metadata"]["uid"] for kind, name, body in found if body}


def test_killed_at_any_moment_it_converges(operators: Place, team: Team) -> None:
    """Killed with SIGKILL ever later into the making of several jobs' children, and started again: in the
    end every child is there once, and what had been made was not made again."""
    names = [f"any-{number}" for number in range(4)]
    made: dict[tuple[str, str], str] = {}
    for number, delay_seconds in enumerate((0.0, 0.15, 0.3, 0.6)):
        with operators.operator() as operator:
            team.apply(training_job(names[number]))
            time.sleep(delay_seconds)
            operator.kill()
        made |= _uids(team, *names[: number + 1])
    with operators.operator():
        for name in names:
            wait_for(lambda name=name: len(_uids(team, name)) == 4 or None, what=f"all children of {name}")
            team.phase(name, "Pending", "Starting")
    assert made.items() <= _uids(team, *names).items()


def test_job_deleted_while_nobody_is_there(operators: Place, team: Team) -> None:
    """With the operator away, a deleted job goes at once and its children go by garbage collection."""
    with operators.operator():
        team.apply(training_job("left"))
        team.exists("pod", "left-0")
    team.kubectl("delete", "xtj", "left", "--wait=true", "--timeout=20s")
    assert team.get("xtj", "left") is None
    for kind in CHILDREN:
        team.gone(kind, "left")
    team.gone("pod", "left-0")


def test_what_happened_meanwhile_is_seen_at_the_start(operators: Place, team: Team) -> None:
    """Children and jobs that were deleted, and jobs that were made, while no operator was there."""
    with operators.operator():
        team.apply(job("kept"), job("deleted"))
        for name in ("kept", "deleted"):
            team.exists("statefulset", name)
    team.kubectl("delete", "service", "kept")
    team.kubectl("delete", "xtj", "deleted")
    team.apply(job("made"))
    with operators.operator() as operator:
        team.exists("service", "kept")
        team.exists("statefulset", "made")
        team.gone("statefulset", "deleted")
        wait_for(
            lambda: (
                sum(value for name, value in operator.metrics().items() if name.startswith("xeontrain_jobs{"))
                == 2
            ),
            what="two jobs to be known",
        )


def test_operator_was_away_at_the_end(operators: Place, team: Team) -> None:
    """The job ends while no operator is there; the next one reads it. Then one more starts on the finished
    job: nothing moves."""
    kubelet = Kubelet(team, "away")
    with operators.operator() as operator:
        team.apply(job("away"))
        kubelet.runs(0)
        team.phase("away", "Starting", "Running")
        operator.kill()
    uid = team.exists("xtj", "away")["metadata"]["uid"]
    kubelet.runs(0, restarts=1, last=result_document(uid))
    with operators.operator():
        team.phase("away", "Succeeded")
        team.gone("statefulset", "away")
        team.end_pod("away-0")
        wait_for(lambda: "Cleaned" in " ".join(team.events("away")) or None, what="the end of the cleaning")
    version = team.exists("xtj", "away")["metadata"]["resourceVersion"]
    with operators.operator() as another:
        wait_for(lambda: another.reconciles() > 0 or None, what="a reconcile")
        assert another.metrics()['xeontrain_jobs{phase="Succeeded"}'] == 1
        assert another.writes() == 0
    assert team.exists("xtj", "away")["metadata"]["resourceVersion"] == version
    assert team.get("statefulset", "away") is None


def test_definition_may_come_later(control_plane: ControlPlane, operators: Place, team: Team) -> None:
    """An operator that is started before its definition waits for it, says so, and then serves."""
    definition = "xeontrainjobs.xeontrain.dev"
    saved = control_plane.kubectl("get", "crd", definition, "-o", "json").stdout
    control_plane.kubectl("delete", "crd", definition, "--timeout=60s")
    try:
        with operators.operator(ready=False) as operator:
            wait_for(
                lambda: "does not serve XeonTrainJob yet" in operators.log() or None,
                what="a word about the missing definition",
            )
            control_plane.kubectl("create", "-f", "-", input=_portable(saved))
            wait_for(lambda: operator.healthy() or None, what=f"the operator: {operators.log()[-2000:]}")
            team.apply(job("late"))
            team.exists("statefulset", "late")
            # Without its definition it has nothing to serve: it ends, and is started anew to wait for it.
            control_plane.kubectl("delete", "crd", definition, "--timeout=60s")
            assert operator.process.wait(120) == 1
    finally:
        control_plane.kubectl(
            "apply", "--server-side", "--force-conflicts", "-f", "-", input=_portable(saved)
        )


def test_end_is_clean(operators: Place, team: Team) -> None:
    """SIGTERM ends it with exit code 0 and without a word of error."""
    with operators.operator() as operator:
        team.apply(job("running"))
        team.exists("statefulset", "running")
        assert operator.stop() == 0
    for word in ("ERROR", "Traceback", "Unclosed", "never retrieved"):
        assert word not in operators.log()


def test_wrong_settings_are_said_in_one_line(operators: Place) -> None:
    """A key that does not exist: exit code 1, naming the key, no traceback."""
    with operators.operator(ready=False, noSuchSetting=1) as operator:
        assert operator.process.wait(30) == 1
    assert "noSuchSetting" in operators.log()
    assert "Traceback" not in operators.log()


def _portable(definition: str) -> str:
    body = json.loads(definition)
    kept = {
        key: body["metadata"][key] for key in ("name", "labels", "annotations") if key in body["metadata"]
    }
    return json.dumps({**{key: body[key] for key in ("apiVersion", "kind", "spec")}, "metadata": kept})
