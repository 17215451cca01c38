"""`xeontrain run` as a person starts it: real launchers, thin commands in place of a training."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from rich.console import Console
from xeontrain_operator.cli.run import command

from tests.contract.cases.edits import COMMAND, edited

TIMEOUT_SECONDS = 120
# The children must find the packages wherever this process has found them.
ENVIRON = {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path if path)}


def _command(folder: Path, script: str, **edits: Any) -> list[str]:
    # One CPU a worker at most, so that a small machine has room for two.
    job = edited(
        COMMAND,
        {"metadata.name": "hello", "spec.workers": WORKERS, "spec.command": ["sh", "-c", script], **edits},
    )
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    return [sys.executable, "-m", "xeontrain_operator", "run", str(file)]


WORKERS = min(2, len(os.sched_getaffinity(0)))


def _run(folder: Path, script: str, **edits: Any) -> subprocess.CompletedProcess[str]:
    command = _command(folder, script, **edits)
    return subprocess.run(
        command, cwd=folder, env=ENVIRON, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )


def test_success(tmp_path: Path) -> None:
    """All ranks run with torchrun's environment, and the end is told."""
    script = 'echo "$RANK of $WORLD_SIZE" > "$XEONTRAIN_JOB_DIR/rank-$RANK"'
    result = _run(tmp_path, script)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Succeeded in" in result.stdout
    written = {path.name: path.read_text() for path in tmp_path.glob("xeontrain-hello/storage/*/rank-*")}
    assert written == {f"rank-{rank}": f"{rank} of {WORKERS}\n" for rank in range(WORKERS)}


def test_user_error(tmp_path: Path) -> None:
    """A program that is not there ends the job at once, with its name and where the log is."""
    result = _run(tmp_path, "", **{"spec.command": ["no-such-program"]})
    assert result.returncode == 1
    assert "(UserError)" in result.stdout
    assert "no-such-program" in result.stdout
    assert "The whole log: xeontrain-hello/runs/" in result.stdout


def test_failure_after_restarts(tmp_path: Path) -> None:
    """Each failure is a new round, until backoffLimit is passed."""
    script = 'echo "$XEONTRAIN_ROUND" >> "$XEONTRAIN_JOB_DIR/rounds-$RANK"; exit 3'
    result = _run(tmp_path, script, **{"spec.runPolicy.backoffLimit": 1})
    assert result.returncode == 1
    assert "(BackoffLimitExceeded)" in result.stdout
    # The first rank that fails takes the others down, maybe before they have written.
    written = [path.read_text().split() for path in tmp_path.glob("xeontrain-hello/storage/*/rounds-*")]
    assert {number for numbers in written for number in numbers} == {"1", "2"}


@pytest.mark.parametrize(
    "signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=["ctrl-c", "terminated", "killed"]
)
def test_nothing_is_left(tmp_path: Path, signal_number: signal.Signals) -> None:
    """Ctrl-C, or even the sudden death of the command, ends launchers and ranks."""
    # As in a pod, $$ is how a command writes $.
    script = 'echo $$$$ > "$XEONTRAIN_JOB_DIR/pid-$RANK"; exec sleep 1000'
    command = _command(tmp_path, script)
    with subprocess.Popen(command, cwd=tmp_path, env=ENVIRON, stdout=subprocess.PIPE, text=True) as process:
        try:
            ranks = _wait_for_ranks(process, tmp_path)
            launchers = psutil.Process(process.pid).children()
            process.send_signal(signal_number)
            output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
        finally:
            process.kill()
    gone, alive = psutil.wait_procs([*ranks, *launchers], timeout=TIMEOUT_SECONDS)
    assert alive == []
    assert len(gone) == 2 * WORKERS
    if signal_number != signal.SIGKILL:
        assert process.returncode == 1
        assert "Interrupted" in output


def test_the_next_run_goes_on_with_what_ctrl_c_has_saved(tmp_path: Path) -> None:
    """Ranks are asked to save, the checkpoint is named, and the same work goes on in the same folder."""
    script = (
        'cd "$XEONTRAIN_JOB_DIR"; [ -e checkpoints/step-00000007 ] && exit 0; '
        "trap 'sleep 1; mkdir -p checkpoints/step-00000007; exit 0' TERM; "
        'echo $$$$ > "pid-$RANK"; while :; do sleep 0.1; done'
    )
    command = _command(tmp_path, script)
    with subprocess.Popen(command, cwd=tmp_path, env=ENVIRON, stdout=subprocess.PIPE, text=True) as process:
        try:
            _wait_for_ranks(process, tmp_path)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
        finally:
            process.kill()
    assert "Asked all ranks to save and end" in output
    assert "The next run goes on from the checkpoint of step 7" in output
    second = _run(tmp_path, script)
    assert "Goes on with the run that was interrupted, from its checkpoint of step 7" in second.stdout
    assert second.returncode == 0, second.stdout
    # It has its verdict: a third one begins anew, with a folder of its own.
    third = _run(tmp_path, "exit 0")
    assert "Goes on" not in third.stdout
    assert len(list(tmp_path.glob("xeontrain-hello/storage/*"))) == 2


def test_ctrl_c_while_libraries_load(tmp_path: Path) -> None:
    """It ends without a traceback, also in the seconds before the command itself runs."""
    (tmp_path / "typer.py").write_text("print('loading', flush=True)\nimport time\ntime.sleep(1000)\n")
    environ = {**ENVIRON, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ENVIRON['PYTHONPATH']}"}
    command = [sys.executable, "-m", "xeontrain_operator", "crd"]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=TIMEOUT_SECONDS)
    assert (process.returncode, said) == (-signal.SIGINT, "")


def test_a_second_ctrl_c_waits_for_nobody(tmp_path: Path) -> None:
    """Impatience, or ranks that do not listen, leave nothing behind, not even what only the end can find."""
    script = (
        'trap "" TERM; env -i setsid sleep 1000 & echo $! > "$XEONTRAIN_JOB_DIR/pid-$RANK"; '
        "while :; do sleep 0.1; done"
    )
    command = _command(tmp_path, script)
    with subprocess.Popen(command, cwd=tmp_path, env=ENVIRON, stdout=subprocess.PIPE, text=True) as process:
        try:
            daemons = _wait_for_ranks(process, tmp_path)
            for _ in range(5):
                process.send_signal(signal.SIGINT)
                time.sleep(0.1)
            output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
        finally:
            process.kill()
    assert "Interrupted" in output
    assert psutil.wait_procs(daemons, timeout=TIMEOUT_SECONDS)[1] == []


def test_a_daemon_is_not_left_either(tmp_path: Path) -> None:
    """A child with a session and an environment of its own ends with the run that made it."""
    script = 'env -i setsid sleep 1000 & echo $! > "$XEONTRAIN_JOB_DIR/pid-$RANK"; sleep 1'
    result = _run(tmp_path, script, **{"spec.workers": 1})
    assert result.returncode == 0, result.stdout + result.stderr
    (pid,) = [int(path.read_text()) for path in tmp_path.glob("xeontrain-hello/storage/*/pid-*")]
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize("edits", [{}, {"metadata.uid": "../../.."}], ids=["its-own", "hostile"])
def test_a_job_from_a_cluster_runs_again_and_again(tmp_path: Path, edits: dict[str, Any]) -> None:
    """`kubectl get -o yaml` writes a UID; each run here has its own all the same."""
    for _ in range(2):
        result = _run(tmp_path, "exit 0", **{"spec.workers": 1, "metadata.uid": "0f5c1a52-0000", **edits})
        assert result.returncode == 0, result.stdout + result.stderr


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    """The second is refused at once and names the first; when that has ended, however it did, it runs."""
    script = 'echo $$$$ > "$XEONTRAIN_JOB_DIR/pid-$RANK"; exec sleep 1000'
    command = _command(tmp_path, script)
    with subprocess.Popen(command, cwd=tmp_path, env=ENVIRON, stdout=subprocess.PIPE, text=True) as process:
        try:
            _wait_for_ranks(process, tmp_path)
            second = _run(tmp_path, "exit 0")
        finally:
            process.kill()
    assert second.returncode != 0
    said = " ".join((second.stdout + second.stderr).split())
    assert f"another run (process {process.pid}) uses it" in said
    assert "--output" in said
    assert _run(tmp_path, "exit 0").returncode == 0


@pytest.mark.parametrize("name", ["", "runs", "storage"], ids=["folder", "runs", "storage"])
def test_a_folder_that_cannot_be_written_is_named_before_the_run(tmp_path: Path, name: str) -> None:
    """A file stands where a folder is to be: one sentence, no traceback, nothing started."""
    output = tmp_path / "xeontrain-hello"
    if name:
        output.mkdir()
    (output / name).write_text("no folder")
    result = _run(tmp_path, 'touch "$XEONTRAIN_STATE_DIR/started"')
    said = " ".join((result.stdout + result.stderr).split())
    assert result.returncode != 0
    assert "cannot be written" in said
    assert "--output" in said
    assert "Traceback" not in said
    assert not list(tmp_path.rglob("started"))


def test_ctrl_c_after_the_verdict_hides_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It comes when all has been done: the run has succeeded and says so."""
    watch = command._watch

    def watch_and_interrupt(*arguments: Any, **options: Any) -> None:
        watch(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_watch", watch_and_interrupt)
    file = _command(tmp_path, "exit 0")[-1]
    assert command.run_file(file, output=tmp_path / "out", job_name=None, console=Console())
    said = capsys.readouterr().out
    assert "Succeeded in" in said
    assert "Interrupted" not in said


def test_ctrl_c_while_a_model_is_saved(tmp_path: Path) -> None:
    """A rank that writes and will not be disturbed is ended too; what it had begun is no model."""
    script = (
        "trap '' TERM INT; mkdir $XEONTRAIN_JOB_DIR/.model-partial; "
        'echo $$$$ > "$XEONTRAIN_JOB_DIR/pid-$RANK"; while :; do sleep 0.1; done'
    )
    edits = {"spec.workers": 1, "spec.runPolicy.gracePeriodSeconds": 15}
    command_line = _command(tmp_path, script, **edits)
    with subprocess.Popen(
        command_line, cwd=tmp_path, env=ENVIRON, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            ranks = _wait_for_ranks(process, tmp_path, number=1)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
        finally:
            process.kill()
    assert "Interrupted" in output
    assert psutil.wait_procs(ranks, timeout=TIMEOUT_SECONDS)[1] == []
    assert not list(tmp_path.rglob("model"))


def _wait_for_ranks(
    process: subprocess.Popen[str], folder: Path, *, number: int = WORKERS
) -> list[psutil.Process]:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(ValueError):
            pids = [int(path.read_text()) for path in folder.glob("xeontrain-hello/storage/*/pid-*")]
            if len(pids) == number:
                return [psutil.Process(pid) for pid in pids]
        time.sleep(0.1)
    raise AssertionError("the ranks did not start")
