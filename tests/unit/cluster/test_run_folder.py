"""State goes with a run, also with one that was killed; logs stay."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cluster.run_folder import RUNS_KEPT, RunFolder, remove_stale


def test_a_closed_run_keeps_its_logs_only(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    (folder.state / "etcd").write_text("data")
    (folder.logs / "etcd.log").write_text("line")
    folder.close()
    assert not folder.state.exists()
    assert (folder.logs / "etcd.log").read_text() == "line"


def test_a_running_one_is_left_alone_and_a_killed_one_cleaned(tmp_path: Path) -> None:
    """A killed run's lock is free, so the next start takes its state away."""
    running, killed = RunFolder(tmp_path), RunFolder(tmp_path)
    os.close(killed._lock)
    remove_stale(tmp_path)
    assert running.state.exists()
    assert not killed.state.exists()
    assert killed.logs.exists()
    running.close()


def test_logs_of_old_runs_are_removed(tmp_path: Path) -> None:
    for _ in range(RUNS_KEPT + 3):
        RunFolder(tmp_path).close()
    last = RunFolder(tmp_path)
    assert len(list(tmp_path.iterdir())) == RUNS_KEPT + 1
    last.close()
