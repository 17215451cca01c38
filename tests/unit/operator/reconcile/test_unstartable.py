"""Images that cannot start the launcher, and a launcher that cannot be copied: named at once."""

from __future__ import annotations

from typing import Any

import pytest
from xeontrain_operator.reconcile.decision import Decision

from tests.unit.operator.reconcile.test_decide_life import Life, conditions, message
from tests.unit.operator.sample import pod, terminated, waiting

Document = dict[str, Any]

IMAGE = "registry.example/trainer:1"
# What containerd with runc, and CRI-O with crun, say.
RUNC = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create "
    'failed: unable to start container process: error during container init: exec: "python3": {}: unknown'
)
NOT_FOUND = RUNC.format("executable file not found in $PATH")
CRUN = "container create failed: executable file `python3` not found in $PATH: No such file or directory"
TOO_OLD = (
    "spec.image: its python3 (/usr/bin/python3, 3.6.8) cannot run the launcher: it is too old. The launcher "
    "needs Python 3.9 or later"
)
OWN = {"command": ["./train"], "image": IMAGE}


def _end(reason: str, said: str, code: int = 128) -> Document:
    return terminated(said, code=code, reason=reason)


def _decided(spec: Document, **states: Any) -> Decision:
    life = Life(spec=spec)
    life.decide()
    life.seconds = 5
    return life.started(pods=(pod(0), pod(1, **states)))


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (
            {"state": waiting("RunContainerError", NOT_FOUND)},
            ["has no python3 in its PATH", "worker 1", "executable file not found"],
        ),
        ({"state": _end("StartError", NOT_FOUND)}, ["has no python3 in its PATH"]),
        (
            {
                "state": waiting("CrashLoopBackOff"),
                "last_state": _end("StartError", NOT_FOUND),
                "restarts": 1,
            },
            ["has no python3 in its PATH"],
        ),
        ({"state": waiting("CreateContainerError", CRUN)}, ["has no python3 in its PATH"]),
        (
            {"state": _end("StartError", RUNC.format("permission denied"))},
            ["has a python3 that cannot be executed"],
        ),
        ({"state": _end("Error", TOO_OLD, code=126)}, ["3.6.8", "too old", "Python 3.9 or later"]),
    ],
    ids=["being-started", "ended", "backing-off", "cri-o", "not-executable", "too-old"],
)
def test_missing_python_ends_the_job_at_once(states: Document, words: list[str]) -> None:
    """Field, image and remedy at the first look; no failure has to be repeated for it."""
    decision = _decided(OWN, **states)
    assert conditions(decision)["Failed"] == ("True", "UserError")
    said = message(decision, "Failed")
    assert said.startswith("spec.image: ")
    assert all(word in said for word in words)


def test_remedy_for_the_trainer_image_is_the_charts() -> None:
    """A user who named no image can correct none."""
    said = message(_decided({}, state=_end("StartError", NOT_FOUND)), "Failed")
    assert said.startswith(f"the chart's images.trainer: {IMAGE}")
    assert "spec.image" not in said


@pytest.mark.parametrize(
    "states",
    [
        {"state": _end("StartError", "failed to create containerd task: context deadline exceeded")},
        {"state": _end("StartError", RUNC.format("cgroup: device or resource busy"))},
        {"state": _end("Error", NOT_FOUND, code=1)},
        {"state": _end("Error", TOO_OLD, code=1)},
    ],
    ids=["runtime-is-slow", "runtime-is-busy", "a-programs-own-words", "another-exit-code"],
)
def test_what_may_pass_is_tried_again(states: Document) -> None:
    """A fault of the node, or of a program that ran, counts as a failure and no more."""
    decision = _decided(OWN, **states)
    assert "Failed" not in conditions(decision)
    assert decision.status["restarts"]["failures"] == 1


@pytest.mark.parametrize(
    ("state", "last", "reason", "words"),
    [
        (waiting("ErrImagePull", "unauthorized"), None, "ImagePullFailed", ["unauthorized", "pullSecrets"]),
        (
            waiting("CrashLoopBackOff"),
            _end("Error", "cp: cannot stat '/opt/xeontrain/launcher.pyz'", code=1),
            "CrashLoop",
            ["cannot stat", "images.operator"],
        ),
    ],
    ids=["not-pulled", "not-copied"],
)
def test_launcher_that_does_not_arrive_is_named(
    state: Document, last: Document | None, reason: str, words: list[str]
) -> None:
    """The trainer container waits for another; that one's trouble is what is told."""
    copying = {"name": "xeontrain-launcher", "image": "registry.example/operator:7", "state": state}
    if last is not None:
        copying["lastState"] = last
    held = pod(1, state=waiting("PodInitializing"))
    held["status"]["initContainerStatuses"] = [copying]
    life = Life(spec=OWN)
    life.decide()
    life.seconds = 5
    decision = life.started(pods=(pod(0), held))
    assert conditions(decision)["Running"] == ("False", reason)
    said = message(decision, "Running")
    assert said.startswith("the operator's image: registry.example/operator:7")
    assert all(word in said for word in [*words, "worker 1"])
