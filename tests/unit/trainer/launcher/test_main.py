"""How the launcher is called, and the small pure parts around the gang."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from xeontrain_trainer import contract
from xeontrain_trainer.gang.coordinator import FailureRecord, RoundEnded, RoundOpened
from xeontrain_trainer.gang.identity import Identity, RoundId
from xeontrain_trainer.gang.messages import Order, RankFailure
from xeontrain_trainer.launcher.causes import is_consequence, to_failure
from xeontrain_trainer.launcher.coordinator_loop import describe_end, describe_start, find_port
from xeontrain_trainer.launcher.main import main
from xeontrain_trainer.launcher.status import metrics_text
from xeontrain_trainer.launcher.supervisor import RankExit

from tests.unit.trainer.launcher.loopback import ROOT, Gang, Pod

CAUSE = RankFailure(1, 3, 1, None, "ValueError: no", 1700000000.0, False)


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    """A pod that is not started."""
    gang = Gang(tmp_path, workers=1, command=["true"])
    return gang.make_pod(0)


@pytest.mark.parametrize("argv", [[], ["--"], ["true"], ["-x", "--", "true"]], ids=str)
def test_wrong_calls_say_how_to_call(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 78 and the usage."""
    assert main(argv, {}) == 78
    assert "usage: python -m xeontrain_trainer.launcher -- COMMAND" in capsys.readouterr().err


def test_modules_of_the_users_folder_do_not_stand_in_for_the_librarys(pod: Pod) -> None:
    """The container's command starts the launcher in `workingDir`, where a queue.py is the user's own."""
    for name in ("queue", "socket", "json"):
        (pod.folder / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    done = subprocess.run(
        [sys.executable, "-m", "xeontrain_trainer.launcher"],
        cwd=pod.folder,
        env=pod.gang.environ(pod),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.partition(":")[0]) == (78, "usage")


def test_the_launcher_and_the_shim_load_the_standard_library_alone() -> None:
    """Torch would take seconds and hundreds of MiB beside the ranks, and a user's image may lack the rest."""
    script = (
        "import sys; before = set(sys.modules);"
        "import xeontrain_trainer.launcher.main, xeontrain_trainer.rank;"
        "own = (*sys.stdlib_module_names, 'xeontrain_trainer');"
        "print([name for name in set(sys.modules) - before if name.split('.')[0] not in own])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(ROOT / "trainer")},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_missing_variable_is_named(pod: Pod, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 78 and the variable."""
    environ = pod.gang.environ(pod)
    del environ["XEONTRAIN_JOB_UID"]
    assert main(["--", "true"], environ) == 78
    assert "XEONTRAIN_JOB_UID" in capsys.readouterr().err
    assert "XEONTRAIN_JOB_UID" in pod.termination.read_text()


def test_a_port_that_is_taken_is_named(pod: Pod, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1: the kubelet tries again."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", pod.port))
        taken.listen()
        assert main(["--", "true"], pod.gang.environ(pod)) == 1
    assert str(pod.port) in capsys.readouterr().out
    assert str(pod.port) in pod.termination.read_text()


def test_the_rendezvous_port_is_the_first_free_one() -> None:
    """From the round's own place in the range, upward and round again."""
    first = 31000
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", first + 99))
        taken.listen()
        assert find_port("127.0.0.1", first=first, round_number=1) == first
        assert find_port("127.0.0.1", first=first, round_number=2) == first + 1
        assert find_port("127.0.0.1", first=first, round_number=100) == first
        assert find_port("127.0.0.1", first=first, round_number=101) == first


@pytest.mark.parametrize(
    ("message", "code", "expected"),
    [
        (
            "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.8]:1234",
            1,
            True,
        ),
        ("RuntimeError: Read error [127.0.0.1]:7: Connection reset by peer", 1, True),
        ("torch.distributed.DistNetworkError: failed to recv, got 0 bytes", 1, True),
        (
            "DistNetworkError: The client socket has failed to connect to any network address of (a, 1).",
            1,
            True,
        ),
        ("BrokenPipeError: [Errno 32] Broken pipe", 1, True),
        ("the connection was closed while reading the data", 65, False),
        ("ValueError: expected sequence of length 2", 1, False),
        ("", None, False),
    ],
    ids=lambda value: str(value)[:24],
)
def test_closed_connections_are_consequences(message: str, code: int | None, *, expected: bool) -> None:
    """The words of gloo, TCPStore and Python; a user error is never one."""
    assert is_consequence(message, exit_code=code) is expected


@pytest.mark.parametrize(
    ("exit_code", "signal", "stopped", "fails"),
    [
        (0, None, False, False),
        (0, None, True, False),
        (1, None, True, False),
        (None, 15, True, False),
        (1, None, False, True),
        (75, None, False, True),
        (None, 9, False, True),
    ],
)
def test_which_ends_are_failures(
    exit_code: int | None, signal: int | None, *, stopped: bool, fails: bool
) -> None:
    """Those that nobody asked for and that are not success."""
    ended = RankExit(4, 1, 3, exit_code, signal, "m" * 2000, 1.0, stopped)
    failure = to_failure(ended, worker=1, training=False)
    assert (failure is not None) is fails
    if failure is not None:
        assert (failure.worker, failure.rank, len(failure.message)) == (1, 3, 500)


def test_a_training_that_another_workers_flag_has_ended() -> None:
    """Its ranks agree, so one may end before its own launcher has asked it. A script's 75 is its own."""
    ended = RankExit(4, 1, 3, contract.EXIT_INTERRUPTED, None, "", 1.0, stopped=False)
    assert to_failure(ended, worker=1, training=True) is None
    assert to_failure(ended, worker=1, training=False) is not None


def test_rounds_are_told_in_a_line() -> None:
    """What `kubectl logs` shows of the gang."""
    order = Order(RoundId(3, Identity("pod-0", 1, 1.0)), 2, "10.0.0.7", 29502)
    assert describe_start(RoundOpened(order, 4)) == (
        "round 3: world size 8 (4 workers x 2 ranks), rendezvous at 10.0.0.7:29502"
    )
    record = FailureRecord("pod-0/3", 3, "RankFailed", CAUSE)
    assert describe_end(RoundEnded(3, "failed", record), limit=3, total=1) == (
        "round 3 has failed: rank 3 of worker 1, exit code 1: ValueError: no (failure 1, backoffLimit 3)"
    )
    assert "not counted" in describe_end(RoundEnded(3, "lost", None), limit=3, total=0)
    assert "asked to stop" in describe_end(RoundEnded(3, "interrupted", None), limit=3, total=0)


def test_metrics_leave_out_what_is_not_known() -> None:
    """Prometheus text: help, type and value of each metric, one state."""
    status = {"state": "Running", "round": 2, "progress": {"step": 7, "loss": 0.5}, "missing": [3]}
    text = metrics_text(status, ranks_alive=2)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines[:5] == [
        "xeontrain_launcher_round 2",
        "xeontrain_launcher_ranks_alive 2",
        "xeontrain_launcher_step 7",
        "xeontrain_launcher_loss 0.5",
        "xeontrain_launcher_workers_missing 1",
    ]
    assert 'xeontrain_launcher_state{state="Running"} 1' in lines
    assert sum(line.endswith(" 1") and "state=" in line for line in lines) == 1
