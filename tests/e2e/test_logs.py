"""`xeontrain logs`, of a job that runs and of one that has ended."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.e2e.jobs import Namespace, command_job

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

# A line at once, a hostile one, and a last one that only whoever follows gets to see from the pod.
SCRIPT = (
    "import time\n"
    "print('first line', flush=True)\n"
    "print('\\x1b[2J\\x1b]0;title\\x07 hostile', flush=True)\n"
    "time.sleep(4)\n"
    "print('last line', flush=True)\n"
)


def _logs(ns: Namespace, job: str, *options: str, fails: bool = False) -> str:
    """What the command prints; stderr where it is to fail."""
    argv = [sys.executable, "-m", "xeontrain_operator", "logs", job, "-n", ns.name, *options]
    environ = {**os.environ, "KUBECONFIG": str(ns.cluster.kubeconfig)}
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode != 0) is fails, done.stderr
    return done.stderr if fails else done.stdout


def test_log_of_a_live_and_of_a_finished_job(ns: Namespace, thin_image: str) -> None:
    """Followed to the end of the run, and still there when the pods are gone; nothing steers the terminal."""
    assert "there is no job chatty" in _logs(ns, "chatty", fails=True)
    ns.apply(command_job("chatty", image=thin_image, script=SCRIPT, workers=1))
    followed = _logs(ns, "chatty", "--follow")
    assert followed.index("first line") < followed.index("last line")
    assert followed.count("last line") == 1
    assert "\x1b" not in followed
    assert "hostile" in followed
    ns.wait_for_phase("chatty", "Succeeded")
    ns.wait("pods gone", lambda: not ns.list("pods"), timeout_seconds=60)
    kept = _logs(ns, "chatty")
    assert "first line" in kept
    assert "last line" in kept
    assert "\x1b" not in kept
    assert "first line" not in _logs(ns, "chatty", "--tail", "1")
    assert "has the workers 0 to 0" in _logs(ns, "chatty", "--worker", "7", fails=True)
