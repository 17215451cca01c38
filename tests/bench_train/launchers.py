"""The launchers that a user would start a script with, by hand or by XeonTrain."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bench_train.contest import Contender
from tests.bench_train.jobs import local_run, script_job
from tests.bench_train.process import Command

OURS = "xeontrain run"
TORCHRUN = "torchrun"
RUN_CPU = "torch.backends.xeon.run_cpu"
ACCELERATE = "accelerate launch --cpu"
_BIN = Path(sys.executable).parent


def launchers(script: Sequence[str], *, ranks: int, cpus: int) -> list[Contender]:
    """The same script (a file and its options, `--report` left out) under every launcher."""

    def ours(folder: Path) -> Command:
        return local_run(
            script_job(with_report(script, folder=folder), ranks=ranks, cpus=cpus), folder=folder
        )

    by_hand = [_by_hand(name, start, script, ranks=ranks) for name, start in hand_made(ranks).items()]
    return [Contender(OURS, ours, ranks=ranks), *by_hand]


def hand_made(ranks: int) -> dict[str, list[str]]:
    """What comes before the script. Everything is at its default but the number of ranks."""
    torchrun = [str(_BIN / "torchrun"), "--standalone", f"--nproc-per-node={ranks}"]
    run_cpu = [sys.executable, "-m", "torch.backends.xeon.run_cpu"]
    accelerate = [str(_BIN / "accelerate"), "launch", "--cpu", f"--num_processes={ranks}"]
    return {
        TORCHRUN: torchrun,
        # It starts one process a rank only under torchrun, whose LOCAL_RANK it cuts the cores by.
        RUN_CPU: run_cpu if ranks == 1 else [*torchrun, "--no-python", *run_cpu],
        ACCELERATE: accelerate,
    }


def with_report(script: Sequence[str], *, folder: Path) -> list[str]:
    """The script with the file that its report is read from."""
    return [*script, "--report", str(folder / "report.json")]


def _by_hand(name: str, start: Sequence[str], script: Sequence[str], *, ranks: int) -> Contender:
    return Contender(name, lambda folder: Command((*start, *with_report(script, folder=folder))), ranks=ranks)
