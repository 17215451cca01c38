"""The exec shim pins itself and becomes the command; what cannot be run is one plain sentence."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from xeontrain_trainer import contract, rank
from xeontrain_trainer.launcher.supervisor import shim_command

from tests.cluster.settings import must_run_all

CPU = min(os.sched_getaffinity(0))


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of rank 1 of two, with a plan that pins it to one CPU."""
    plan = {
        "bound": True,
        "cpus": sorted(os.sched_getaffinity(0)),
        "ranks": [
            {"computeCpus": [], "nodes": [], "environment": {}},
            {"computeCpus": [CPU], "nodes": [0], "environment": {"OMP_NUM_THREADS": "1", "LD_PRELOAD": ""}},
        ],
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    return {
        "PATH": os.environ["PATH"],
        "LOCAL_RANK": "1",
        "TORCHELASTIC_ERROR_FILE": str(tmp_path / "error.json"),
        contract.ENV_PLAN_FILE: str(tmp_path / "plan.json"),
    }


def run(command: list[str], environ: dict[str, str], **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        shim_command(command), env=environ, capture_output=True, text=True, timeout=60, check=False, **options
    )  # type: ignore[call-overload,no-any-return]


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_the_command_runs_pinned_with_its_environment(environ: dict[str, str], tmp_path: Path) -> None:
    """Affinity, variables, working directory and arguments arrive; the shim's own path does not."""
    code = (
        "import json, os, sys; print(json.dumps([sorted(os.sched_getaffinity(0)), "
        "os.environ['OMP_NUM_THREADS'], os.getcwd(), sys.argv[1:], os.environ.get('PYTHONPATH')]))"
    )
    done = run([*python(code), "--flag", "--", "x y"], environ, cwd=tmp_path)
    assert done.stderr == ""
    assert json.loads(done.stdout) == [[CPU], "1", str(tmp_path), ["--flag", "--", "x y"], None]


def may_set_memory_policy() -> bool:
    """Whether the kernel has NUMA policies and lets this process set one (seccomp profiles may not)."""
    number = rank.SET_MEMPOLICY.get(os.uname().machine, -1)
    return ctypes.CDLL(None).syscall(ctypes.c_long(number), ctypes.c_int(0), None, ctypes.c_ulong(0)) == 0


@pytest.mark.skipif(
    not must_run_all() and not may_set_memory_policy(), reason="no memory policy may be set here"
)
def test_memory_is_bound(environ: dict[str, str]) -> None:
    """The kernel shows the policy on the memory of the program that the shim became."""
    done = run(["cat", "/proc/self/numa_maps"], environ)
    assert " bind:0 " in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("call", "node", "said"),
    [
        pytest.param(99_999, 0, "", id="call-that-the-sandbox-does-not-have"),
        pytest.param(None, 1000, "memory is not bound to NUMA nodes [1000]", id="node-that-is-not-there"),
    ],
)
def test_a_memory_policy_that_is_refused_stops_no_rank(
    call: int | None,
    node: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The kernel's own choice stays: the node of the CPU that first touches a page."""
    if call is not None:
        monkeypatch.setattr(rank, "SET_MEMPOLICY", {os.uname().machine: call})
    elif not may_set_memory_policy():
        said = ""
    rank.bind_memory([node])
    assert said in capfd.readouterr().err


def test_signals_that_python_ignores_are_restored(environ: dict[str, str]) -> None:
    """A shell script's `yes | head` must end by SIGPIPE, as it would without us."""
    done = run(["sh", "-c", "grep SigIgn /proc/self/status"], environ)
    ignored = int(done.stdout.split()[1], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1))


@pytest.mark.parametrize(
    ("program", "code", "message"),
    [
        pytest.param("", 127, "its first item is empty; write a program's name", id="empty"),
        pytest.param("no-such", 127, "the program no-such was not found in PATH", id="in-path"),
        pytest.param("./none.py", 127, "the program ./none.py is not there", id="by-path"),
        pytest.param("./plain/x", 127, "the program ./plain/x is not there", id="through-a-file"),
        pytest.param("./plain", 126, "the program ./plain is not executable", id="not-executable"),
        pytest.param("./folder", 126, "the program ./folder is not executable", id="a-folder"),
        pytest.param(
            "./rubbish", 126, "the program ./rubbish cannot be run: Exec format error", id="no-program"
        ),
        pytest.param("./script", 126, "the interpreter that ./script names is not there", id="interpreter"),
    ],
)
def test_what_cannot_be_run(
    environ: dict[str, str], tmp_path: Path, program: str, code: int, message: str
) -> None:
    """The same sentence for people stands in the log and in the error file."""
    (tmp_path / "plain").write_text("x")
    (tmp_path / "folder").mkdir()
    for name, text in (("rubbish", "\x01\x02\x03"), ("script", "#!/no/such/interpreter\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    done = run([program], environ, cwd=tmp_path)
    assert done.returncode == code
    assert done.stderr == f"command: {message}\n"
    written = json.loads((tmp_path / "error.json").read_text())["message"]
    assert written["message"] == f"command: {message}"
    assert int(written["extraInfo"]["timestamp"]) > 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        pytest.param({"LOCAL_RANK": "7"}, "has no rank LOCAL_RANK='7'", id="no-such-rank"),
        pytest.param({"LOCAL_RANK": ""}, "started by the launcher, not by hand", id="no-rank"),
        pytest.param({contract.ENV_PLAN_FILE: "/none"}, "No such file", id="no-plan"),
    ],
)
def test_without_its_part_of_the_plan_it_does_not_start(
    environ: dict[str, str], changes: dict[str, str], sentence: str
) -> None:
    done = run(["true"], {**environ, **changes})
    assert done.returncode == contract.EXIT_BAD_CONFIG
    assert sentence in done.stderr


@pytest.mark.parametrize("arguments", [[], ["--"], ["x"], ["--parent", "x", "--", "true"]], ids=str)
def test_usage(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "xeontrain_trainer.rank", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == contract.EXIT_BAD_CONFIG
    assert "usage: python -m xeontrain_trainer.rank" in done.stderr


def test_a_cpu_that_was_taken_away_is_a_warning(environ: dict[str, str], tmp_path: Path) -> None:
    plan = json.loads((tmp_path / "plan.json").read_text())
    plan["ranks"][1]["computeCpus"] = [CPU, 4000]
    plan["ranks"][1]["nodes"] = [63]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    done = run(["echo", "ran"], environ)
    assert done.stdout == "ran\n"
    assert "4000" in done.stderr


def test_a_rank_does_not_outlive_its_launcher(environ: dict[str, str], tmp_path: Path) -> None:
    """kill -9 of the launcher takes the rank along: the kernel does it, nobody has to notice."""
    launcher = (
        "import subprocess, time; from xeontrain_trainer.launcher.supervisor import shim_command; "
        "child = subprocess.Popen(shim_command(['sleep', '600'])); print(child.pid, flush=True); "
        "time.sleep(600)"
    )
    process = subprocess.Popen(
        python(launcher), env={**os.environ, **environ}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    wait_until(lambda: "sleep" in command_of(child))
    process.kill()
    process.wait()
    process.stdout.close()
    wait_until(lambda: "sleep" not in command_of(child))


def test_a_rank_whose_launcher_is_dead_already_ends(environ: dict[str, str]) -> None:
    """The launcher may die between fork and the request to the kernel: the shim sees another parent."""
    command = shim_command(["echo", "ran"])
    command[command.index("--parent") + 1] = "1"
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == ""


def command_of(pid: int) -> str:
    """The process's command line; empty for none and for a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def wait_until(condition: object, *, seconds: float = 30.0) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)
