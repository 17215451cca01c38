"""SIGTERM to a pod: the ranks of all workers save and end together, whatever they run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trainer.launcher.loopback import Gang
from tests.unit.trainer.launcher.test_loopback import first_round_hangs, running, shell

# Real processes on a machine that may be busy with much else.
pytestmark = pytest.mark.timeout(900)

LATER = '[ "$XEONTRAIN_ROUND" = 1 ] || exit 0; '
BEGUN = "echo '{\"step\": 1}' > $XEONTRAIN_PROGRESS_FILE; "
ON_FLAG = "while [ ! -e $XEONTRAIN_STOP_FILE ]; do sleep 0.1; done; "
METRICS = "[ $RANK = 0 ] && echo '{}' > $XEONTRAIN_METRICS_FILE; "
ON_TERM = "trap 'echo saved > saved; {then}' TERM; echo ready > ready; while :; do sleep 0.1; done"
BUILT_IN = {"TRAINING_FILE": "/training.json"}


def in_round_1(gang: Gang) -> None:
    """Waits until all ranks of round 1 are at work."""
    for pod in gang.pods:
        pod.wait_for("round 1 runs", lambda s: s["round"] == 1 and running(s))


@pytest.mark.parametrize(
    ("script", "settings"),
    [
        pytest.param(LATER + BEGUN + ON_FLAG + "touch saved; exit 75", BUILT_IN, id="training"),
        pytest.param(LATER + BEGUN + ON_FLAG + "touch saved; exit 0", BUILT_IN, id="training-not-finished"),
        pytest.param(LATER + ON_TERM.format(then="exit 0"), {}, id="script"),
        pytest.param(LATER + ON_TERM.format(then="exit 9"), {}, id="script-with-a-code-of-its-own"),
    ],
)
@pytest.mark.parametrize("leaves", [0, 1])
def test_all_save_and_a_replacement_goes_on(
    tmp_path: Path, script: str, settings: dict[str, Any], leaves: int
) -> None:
    """The round ends as interrupted, which is no failure and no success, and the next one opens."""
    with Gang(tmp_path, workers=2, command=shell(script), **settings) as gang:
        in_round_1(gang)
        _until_ready(gang, script)
        old = gang.pods[leaves]
        assert old.terminate() == 0, old.said()
        assert old.marker() is None
        other = gang.pods[1 - leaves]
        other.wait_for("its ranks have saved", lambda s: s["state"] == "Waiting" and s["verdict"] is None)
        assert all((pod.folder / "saved").exists() for pod in gang.pods)
        gang.replace(leaves)
        assert gang.pods[0].exit_code() == 0, gang.pods[0].said()
        document = gang.pods[0].document()
        assert (document["outcome"], document["failures"]) == ("Succeeded", 0)
        assert document["round"] > 1 or leaves == 0


def _until_ready(gang: Gang, script: str) -> None:
    """A shell that is not at its trap yet dies of SIGTERM; a training has begun once it tells a step."""
    if "ready" in script:
        while not all((pod.folder / "ready").exists() for pod in gang.pods):
            time.sleep(0.05)
    else:
        gang.pods[0].wait_for("a step", lambda s: s["progress"])


@pytest.mark.parametrize(
    ("script", "settings"),
    [
        pytest.param(BEGUN + ON_FLAG + METRICS + "exit 0", BUILT_IN, id="training"),
        pytest.param(BEGUN + ON_TERM.format(then=METRICS + "exit 0"), {}, id="script"),
    ],
)
@pytest.mark.parametrize("leaves", [0, 1])
def test_what_had_finished_has_succeeded(
    tmp_path: Path, script: str, settings: dict[str, Any], leaves: int
) -> None:
    """Rank 0's metrics are the mark: the verdict is published although a pod was asked to end."""
    with Gang(tmp_path, workers=2, command=shell(script), **settings) as gang:
        in_round_1(gang)
        _until_ready(gang, script)
        assert gang.pods[leaves].terminate() == 0
        assert gang.pods[0].exit_code() == 0, gang.pods[0].said()
        document = gang.pods[0].document()
        assert (document["outcome"], document["round"]) == ("Succeeded", 1)


def test_rounds_go_on_where_all_pods_are_others(tmp_path: Path) -> None:
    """As after a suspend: what all pods have forgotten stands in storage."""
    with Gang(tmp_path, workers=2, command=first_round_hangs(), JOB_DIR=tmp_path / "job") as gang:
        in_round_1(gang)
        for pod in gang.pods:
            assert pod.process is not None
            pod.process.terminate()
        assert [pod.exit_code() for pod in gang.pods] == [0, 0]
        for worker in range(2):
            gang.replace(worker)
        assert gang.pods[0].exit_code() == 0, gang.pods[0].said()
        document = gang.pods[0].document()
        assert (document["outcome"], document["round"], document["failures"]) == ("Succeeded", 2, 0)


def test_worker_0_waits_for_the_others(tmp_path: Path) -> None:
    """Its own ranks have ended; those of another still write what they save."""
    script = ON_TERM.format(then="[ $RANK = 0 ] || sleep 3; touch whole; exit 0")
    with Gang(tmp_path, workers=2, command=shell(script)) as gang:
        in_round_1(gang)
        _until_ready(gang, script)
        assert gang.pods[0].terminate() == 0
        assert (gang.pods[1].folder / "whole").exists()
        assert "round 1 has ended: a worker was asked to stop" in gang.pods[0].said()


def test_a_training_that_has_not_begun_has_nothing_to_save(tmp_path: Path) -> None:
    """It may still load its model for minutes, and nobody waits for that."""
    with Gang(tmp_path, workers=2, command=shell("exec sleep 300"), **BUILT_IN) as gang:
        in_round_1(gang)
        started = time.monotonic()
        assert gang.pods[1].terminate() == 0
        assert time.monotonic() - started < 60
        gang.pods[0].wait_for("its ranks have ended", lambda s: s["state"] == "Waiting")


def test_ranks_that_do_not_end_are_killed_before_the_grace_period_is_over(tmp_path: Path) -> None:
    """10 s before, in all workers; until then they are left alone."""
    stubborn = "trap 'echo heard' TERM; echo ready > ready; while :; do sleep 0.2; done"
    with Gang(tmp_path, workers=2, command=shell(stubborn), GRACE_PERIOD_SECONDS=15) as gang:
        in_round_1(gang)
        _until_ready(gang, stubborn)
        started = time.monotonic()
        assert gang.pods[1].terminate() == 0
        assert time.monotonic() - started >= 4
        gang.pods[0].wait_for("its ranks have ended", lambda s: s["state"] == "Waiting")
        for pod in gang.pods:
            assert "heard" in pod.said()
            assert "ranks that still run are killed" in pod.said()
