"""Folders that cannot be written: said at once on the port, given up in time, and no verdict is lost."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from xeontrain_trainer.contract import EXIT_STORAGE
from xeontrain_trainer.launcher.trouble import explain_storage

from tests.cluster.settings import must_run_all
from tests.unit.trainer.launcher.loopback import Gang, Pod, eventually

pytestmark = pytest.mark.timeout(900)

# As the launcher is, but for a patience that a test can wait for.
HASTY = "import xeontrain_trainer.launcher.trouble as trouble; trouble.GIVE_UP_SECONDS = {}"
SOON = HASTY.format(4.0)
# A mount namespace of its own in which the emptyDir is a file system of a few pages, all of them full.
USER = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
UNSHARE = ["unshare", *USER, "--mount", "sh", "-c"]


def may_mount() -> bool:
    """Whether a tmpfs can be mounted here."""
    try:
        done = subprocess.run([*UNSHARE, "mount -t tmpfs tmpfs /mnt"], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def full_disk(pod: Pod) -> Sequence[str]:
    """The emptyDir on a full disk; worker 0's alone."""
    if pod.worker != 0:
        return ()
    pod.state.mkdir(exist_ok=True)
    fill = f"mount -t tmpfs -o size=64k tmpfs {pod.state}; cat /dev/zero > {pod.state}/full 2>/dev/null"
    return [*UNSHARE, f'{fill}; exec "$@"', "sh"]


def readiness(pod: Pod) -> str:
    """What /readyz says once it says 503 about a folder; fails where it never does."""

    def look() -> str | None:
        try:
            code, body = pod.get("/readyz")
        except OSError:
            return None
        return body.decode() if code == 503 and b"cannot be written" in body else None

    return eventually(look, f"{pod.uid}: a word about a folder on /readyz")


@pytest.mark.skipif(not must_run_all() and not may_mount(), reason="needs a mount namespace (unshare)")
def test_a_full_disk_ends_the_container_with_a_sentence(tmp_path: Path) -> None:
    """The start number cannot be kept: named on the port while it is tried again, then in the pod's status,
    under a code of its own."""
    with Gang(tmp_path, workers=2, command=["true"], prelude=SOON, wrapper=full_disk) as gang:
        zero = gang.pods[0]
        assert "No space left on device" in readiness(zero)
        trouble = zero.status()["trouble"]
        assert (trouble["reason"], zero.status()["missing"]) == ("NotWritable", [0, 1])
        assert zero.exit_code() == EXIT_STORAGE
        sentence = zero.termination.read_text()
        assert str(zero.state) in sentence
        assert "No space left on device" in sentence
        assert "Traceback" not in zero.said()
        assert "destroyed" not in zero.said()


def test_storage_that_cannot_be_written_is_named_and_given_up(tmp_path: Path) -> None:
    """The job's folder lies below a file: no round can be ordered."""
    (tmp_path / "claim").write_text("no folder")
    with Gang(tmp_path, workers=2, command=["true"], prelude=SOON, JOB_DIR=tmp_path / "claim/job") as gang:
        zero, one = gang.pods
        assert "spec.storage: " in readiness(zero)
        assert zero.status()["trouble"]["reason"] == "NotWritable"
        assert zero.exit_code() == EXIT_STORAGE
        sentence = zero.termination.read_text()
        assert sentence.startswith(f"spec.storage: {tmp_path}/claim/job/round.json cannot be written: ")
        assert "Tried for" in sentence
        assert one.running()


def test_storage_that_comes_back_in_time_is_used(tmp_path: Path) -> None:
    """The trouble goes with its cause, and the run goes on."""
    claim = tmp_path / "claim"
    claim.write_text("no folder yet")
    patient = HASTY.format(200.0)
    with Gang(tmp_path, workers=1, command=["true"], prelude=patient, JOB_DIR=claim / "job") as gang:
        zero = gang.pods[0]
        readiness(zero)
        claim.unlink()
        assert zero.exit_code() == 0, zero.said()
        assert zero.document()["outcome"] == "Succeeded"


def test_a_verdict_is_told_where_its_marker_cannot_be_written(tmp_path: Path) -> None:
    """A program has put a folder in the marker's place: everybody hears the verdict, the operator finds it
    in the message and on the port, and the launcher stays, since a next start would not know of it."""
    script = 'mkdir "$(dirname "$XEONTRAIN_STOP_FILE")/marker.json"'
    prelude = "import xeontrain_trainer.launcher.coordinator_loop as loop; loop.PUBLISH_SECONDS = 1.0"
    with Gang(tmp_path, workers=2, command=["sh", "-c", script], prelude=prelude) as gang:
        zero, one = gang.pods
        status = zero.wait_for("the verdict", lambda s: s["verdict"])
        assert status["verdict"]["outcome"] == "Succeeded"
        assert json.loads(zero.termination.read_text()) == status["verdict"]
        one.wait_for("it parks", lambda s: s["state"] == "Parked" and s["verdict"])
        zero.wait_for("it parks", lambda s: s["state"] == "Parked")
        assert zero.get("/readyz")[0] == 200
        assert zero.terminate() == 0


def test_the_numbers_folder_may_be_a_file(tmp_path: Path) -> None:
    """What stands under the name of the start number is no file of ours."""
    with Gang(tmp_path, workers=1, command=["true"], prelude=SOON) as gang:
        zero = gang.pods[0]
        zero.kill()
        (zero.state / "starts").unlink(missing_ok=True)
        (zero.state / "starts").mkdir(parents=True)
        zero.start()
        assert zero.exit_code() == EXIT_STORAGE
        assert "starts cannot be written: Is a directory" in zero.termination.read_text()


def spoil(pod: Pod) -> Sequence[str]:
    """Something that is no file stands where worker 0 keeps its start number."""
    if pod.worker == 0:
        (pod.state / "starts").mkdir(parents=True, exist_ok=True)
    return ()


def test_sigterm_is_heard_while_storage_is_tried(tmp_path: Path) -> None:
    """A pod that is deleted before it has a place ends at once, with exit code 0 and nothing to tell; the
    other worker has been told what it waits for."""
    patient = HASTY.format(600.0)
    with Gang(tmp_path, workers=2, command=["true"], prelude=patient, wrapper=spoil) as gang:
        zero, one = gang.pods
        told = one.wait_for(
            "why worker 0 is not there", lambda s: "not ready" in (s["trouble"] or {}).get("message", "")
        )
        assert "starts cannot be written" in told["trouble"]["message"]
        assert one.get("/readyz")[0] == 503
        assert zero.terminate() == 0
        assert "Traceback" not in zero.said()


@pytest.mark.parametrize(
    ("path", "reason", "words"),
    [
        ("/run/xeontrain/round", "NotWritable", "/run/xeontrain/round cannot be written: No space"),
        ("/data/job/round.json", "NotWritable", "spec.storage: /data/job/round.json cannot be written"),
        (None, "PortsTaken", "none of the ports"),
    ],
    ids=["pod", "storage", "ports"],
)
def test_what_cannot_be_had_is_named(path: str | None, reason: str, words: str) -> None:
    """The field, the file, the system's words."""
    error = OSError("none of the ports") if path is None else OSError(28, "No space left on device", path)
    found = explain_storage(error, state_dir="/run/xeontrain", job_dir="/data/job")
    assert found[0] == reason
    assert words in found[1]
