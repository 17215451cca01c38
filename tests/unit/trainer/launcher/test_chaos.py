"""The gang of real processes under every fault at once; `make chaos` does it for longer, from any seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.trainer.launcher.chaos import Chaos

SECONDS = 12.0


@pytest.mark.timeout(900)
def test_a_gang_succeeds_once_faults_stop(tmp_path: Path) -> None:
    """Ranks and launchers killed, pods replaced, launchers frozen, wall clocks that jump: no two rounds in
    one pod, one verdict, success in the end."""
    chaos = Chaos(tmp_path, seed=3)
    assert chaos.run(seconds=SECONDS)["outcome"] == "Succeeded"
    assert len(chaos.faults) >= 3
