"""Runs one program of a contender from start to end and watches the machine meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench_train.quiet import LoadWatch, Window

TIMEOUT_SECONDS = 1200.0
_STOP_SECONDS = 30.0
_TAIL_LINES = 30
# All else stays out, so that no thread count or allocator of the caller's shell helps or hurts a contender.
_KEPT = ("HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "HF_HOME", "XDG_CACHE_HOME")


_ROOT = Path(__file__).resolve().parents[2]


class BenchError(Exception):
    """A contender did not do its work."""


@dataclass(frozen=True)
class Command:
    """A program with its arguments, and what is set in its environment."""

    argv: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Finished:
    """A program that ended well: how long it took, and what others used of the CPUs meanwhile."""

    wall_seconds: float
    windows: tuple[Window, ...]


def run(command: Command, *, folder: Path, timeout_seconds: float = TIMEOUT_SECONDS) -> Finished:
    """Runs the program in `folder`, its output in `folder/log`. Raises BenchError where it fails."""
    log = folder / "log"
    started = time.monotonic()
    with LoadWatch() as watch, log.open("wb") as output:
        process = subprocess.Popen(
            command.argv,
            cwd=folder,
            env=clean_environment(folder) | dict(command.environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=timeout_seconds)
            wall = time.monotonic() - started
        except subprocess.TimeoutExpired:
            raise BenchError(f"{_named(command)}: not within {timeout_seconds:.0f} s\n{_tail(log)}") from None
        finally:
            _end(process)
    if code != 0:
        raise BenchError(f"{_named(command)}: exit code {code}\n{_tail(log)}")
    return Finished(wall_seconds=wall, windows=tuple(watch.windows))


def clean_environment(folder: Path) -> dict[str, str]:
    """What every contender starts with: this Python's programs first, models from the cache alone, and a data
    cache of its own, so that each tokenizes."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    programs = (str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))
    # Where the caller looks, and in any case this work tree, from whatever folder a program runs in.
    modules = (str(_ROOT / "operator"), str(_ROOT / "trainer"), os.environ.get("PYTHONPATH", ""))
    return {
        **kept,
        "PATH": os.pathsep.join(programs),
        "PYTHONPATH": os.pathsep.join(part for part in modules if part),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(folder / "datasets"),
        "PYTHONUNBUFFERED": "1",
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the program's session; asked first, because `xeontrain run` ends what it has started itself."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_STOP_SECONDS)


def _named(command: Command) -> str:
    return " ".join(command.argv)[:300]


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:])
