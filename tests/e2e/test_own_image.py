"""A command in an image of the user's own, which has Python and nothing of ours, or not even that."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.cluster import PAUSE
from tests.e2e.jobs import Namespace, command_job, condition

pytestmark = pytest.mark.e2e

# Ends well only where the image has no launcher, and then runs for long enough to be looked at.
SCRIPT = """
import importlib.util, os, time
assert importlib.util.find_spec("xeontrain_trainer") is None, "the image has the launcher itself"
launcher = open("/proc/1/cmdline").read().split(chr(0))
print("launched by", *launcher[:4], "on", sorted(os.sched_getaffinity(0)))
time.sleep(300)
"""


def test_launcher_is_brought_along(ns: Namespace, thin_image: str) -> None:
    """The copy is process 1, and the container that copied it costs the pod no class and no CPU."""
    ns.apply(command_job("own", image=thin_image, script=SCRIPT, pinning="Required"))
    ns.wait_for_log("own-0", "launched by python3 -I -S /run/xeontrain-launcher/launcher.pyz")
    ns.wait_for_condition("own", "CPUPinned", status="True")
    pods = ns.list("pods")
    assert {pod["status"]["qosClass"] for pod in pods} == {"Guaranteed"}
    (copying,) = pods[0]["spec"]["initContainers"]
    assert copying["resources"]["requests"] == copying["resources"]["limits"]
    assert [status["ready"] for status in pods[0]["status"]["initContainerStatuses"]] == [True]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"image": PAUSE}, ["spec.image", "xeontrain/pause", "python3", "Python 3.9 or later"]),
        ({"command": ["/opt/missing/train", "--fast"]}, ["command", "/opt/missing/train", "is not there"]),
    ],
    ids=["no-python", "no-program"],
)
def test_what_the_image_lacks_is_named(
    ns: Namespace, thin_image: str, change: dict[str, Any], words: list[str]
) -> None:
    """Within seconds and without a retry: nothing that the job waits for could mend its image."""
    job = command_job("lacks", image=thin_image, script="pass")
    job["spec"].update(change)
    if job["spec"]["image"] == PAUSE:
        job["spec"]["image"] = ns.cluster.images[PAUSE]
    ns.apply(job)
    ended = ns.wait_for_phase("lacks", "Failed", timeout_seconds=60)
    failed = condition(ended, "Failed")
    assert failed is not None
    assert failed["reason"] == "UserError"
    for word in words:
        assert word in failed["message"]
