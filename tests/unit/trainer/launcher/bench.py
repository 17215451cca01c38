"""Measures the launcher: `make bench-launcher`. From its start to each answer, its memory, and how long a
gang takes to run again after a rank's death."""

from __future__ import annotations

import argparse
import http.client
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tests.unit.trainer.launcher.loopback import ROOT, Gang, Pod

READY_MILLISECONDS = 150
RESIDENT_MIB = 40
RESTART_SECONDS = 5
LOOK_SECONDS = 0.001
PATIENCE_SECONDS = 60.0
# Ranks that do nothing, so that what is measured is the launcher.
IDLE = ["sleep", "600"]
# Rank 1 of round 1 dies; all ranks of the next one say when they have begun.
DIES = (
    '[ "$XEONTRAIN_ROUND" = 1 ] || { date +%s.%N > began; exec sleep 600; }; '
    '[ "$RANK" = 1 ] || exec sleep 600; sleep 0.5; date +%s.%N > died; kill -9 $$'
)


def main() -> int:
    """Prints the table; 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=11, help="launchers to start, one after another (11)")
    number = parser.parse_args().runs
    compile_launcher()
    runs = [measure() for _ in range(number)]
    figures = (
        ("start to /healthz", "ms", [run[0] for run in runs], READY_MILLISECONDS),
        ("start to /readyz", "ms", [run[1] for run in runs], READY_MILLISECONDS),
        ("of that on a CPU", "ms", [run[2] for run in runs], READY_MILLISECONDS),
        ("resident, ranks running", "MiB", [run[3] for run in runs], RESIDENT_MIB),
        ("a rank's death to all again", "s", [restart() for _ in range(number)], RESTART_SECONDS),
    )
    for name, unit, values, target in figures:
        found = f"median {median(values):.1f} {unit}, {min(values):.1f} to {max(values):.1f}"
        print(f"{name:28} {found:38} target {target}: {'met' if median(values) <= target else 'MISSED'}")
    return int(any(median(values) > target for _, _, values, target in figures))


def compile_launcher() -> None:
    """Writes the byte code where Python itself would: the images have it too."""
    command = [sys.executable, "-m", "compileall", "-q", str(ROOT / "trainer" / "xeontrain_trainer")]
    subprocess.run(command, check=True)


def measure() -> tuple[float, float, float, float]:
    """Milliseconds to the first /healthz and to the first /readyz that is 200, those of them that were spent
    on a CPU (the rest is waiting, on a busy machine for others), and MiB with ranks."""
    with tempfile.TemporaryDirectory() as folder:
        gang = Gang(Path(folder), workers=1, command=IDLE)
        started = time.monotonic()
        with gang:
            pod = gang.pods[0]
            healthy = _until(lambda: _answers(pod, "/healthz")) - started
            ready = _until(lambda: _answers(pod, "/readyz")) - started
            computed = _cpu_seconds(pod)
            _until(lambda: pod.status().get("state") == "Running")
            return healthy * 1000, ready * 1000, computed * 1000, _resident_mib(pod)


def restart() -> float:
    """Seconds from a rank's death to the moment in which all ranks of both workers have begun again."""
    with tempfile.TemporaryDirectory() as folder:
        gang = Gang(Path(folder), workers=2, command=["sh", "-c", DIES], RANKS_PER_WORKER=1)
        with gang:
            began = [pod.folder / "began" for pod in gang.pods]
            _until(lambda: all(file.exists() and file.read_text() for file in began))
            died = float((gang.pods[1].folder / "died").read_text())
            return max(float(file.read_text()) for file in began) - died


def _answers(pod: Pod, path: str) -> bool:
    try:
        return pod.get(path)[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def _until(check: Callable[[], bool]) -> float:
    """Looks until it is so; the time of that."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not check():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE_SECONDS:.0f} s")
        time.sleep(LOOK_SECONDS)
    return time.monotonic()


def _cpu_seconds(pod: Pod) -> float:
    """What the main thread has computed so far (the kernel's sched-stats)."""
    assert pod.process is not None
    return int(Path(f"/proc/{pod.process.pid}/schedstat").read_text().split()[0]) / 1e9


def _resident_mib(pod: Pod) -> float:
    assert pod.process is not None
    status = Path(f"/proc/{pod.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


if __name__ == "__main__":
    sys.exit(main())
