"""The folder of one run: state that goes with it and logs that stay.

A running cluster holds a lock on its folder. What a killed run left (state, empty cgroups) is removed
by the next one; the logs of the last runs stay for reading.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from tests.cluster import cgroups, settings

RUNS_KEPT = 8
LOCK = ".lock"


class RunFolder:
    """A locked folder; `state` is removed at the end, `logs` is not."""

    def __init__(self, parent: Path | None = None) -> None:
        parent = parent or settings.cache_dir() / "run"
        parent.mkdir(parents=True, exist_ok=True)
        self.path = Path(tempfile.mkdtemp(prefix="xt-", dir=parent))
        self._lock = os.open(self.path / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        remove_stale(parent)
        self.state = self.path / "state"
        self.logs = self.path / "logs"
        self.state.mkdir()
        self.logs.mkdir()

    @property
    def name(self) -> str:
        """The folder's name, unique on this machine; cgroups carry it too."""
        return self.path.name

    def close(self) -> None:
        """Removes the state and the cgroups and lets the folder go; the namespaces must be down."""
        _remove_state(self.path)
        os.close(self._lock)


def remove_stale(parent: Path) -> None:
    """Cleans up after runs that were killed, and removes all but the last few runs' logs."""
    free = [path for path in parent.glob("xt-*") if path.is_dir() and _is_unlocked(path)]
    for path in free:
        _remove_state(path)
    for path in sorted(free, key=lambda path: path.stat().st_mtime)[:-RUNS_KEPT]:
        shutil.rmtree(path, ignore_errors=True)


def _is_unlocked(path: Path) -> bool:
    try:
        descriptor = os.open(path / LOCK, os.O_RDWR)
    except OSError:
        # Either another run makes it right now, or it is no folder of ours.
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _remove_state(path: Path) -> None:
    shutil.rmtree(path / "state", ignore_errors=True)
    cgroups.remove(path.name)
