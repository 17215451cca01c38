"""Contenders on the same CPUs, in turn and in changing order, until each has been measured in every round."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench_train import process, progress
from tests.bench_train.process import BenchError, Command
from tests.bench_train.progress import Followed
from tests.bench_train.quiet import QUIET_CORES, mean_cores, wait_until_quiet
from tests.bench_train.ratios import Run, Step

Say = Callable[[str], None]
# A disturbed run is made again so often, each after a wait for quiet.
ATTEMPTS = 3
PATIENCE_SECONDS = 300.0


@dataclass(frozen=True)
class Contender:
    """One way to do the work of a row.

    `command(folder)`: what to run there. `warmup`: steps of a job's progress that do not count (a script
    leaves its own out). `ranks`: how many must have trained together. `batch_size`: of all ranks, where the
    steps come from a job's progress; None where a script reports them.
    """

    name: str
    command: Callable[[Path], Command]
    ranks: int
    batch_size: int | None = None
    warmup: int = 4


@dataclass(frozen=True)
class Measured:
    """A run with what it told about itself (ranks, threads, accuracy, precision)."""

    run: Run
    others_cores: float
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_calm(self) -> bool:
        """Whether others left the machine alone over the whole run, so that its wall time counts."""
        return self.others_cores < QUIET_CORES


@dataclass(frozen=True)
class Outcome:
    """A contender's runs by round; `disqualified`: why it was not run again, where it did other work."""

    name: str
    rounds: tuple[Measured, ...]
    disqualified: str | None = None


def contest(
    contenders: Sequence[Contender], *, rounds: int, gate: bool, counts: Callable[[Measured], bool], say: Say
) -> list[Outcome]:
    """Runs every contender once a round, the order reversed in every second round.

    `counts(measured)`: whether a run was undisturbed enough; with `gate` it is made again where not. Raises
    BenchError where a contender fails.
    """
    found: dict[str, list[Measured]] = {contender.name: [] for contender in contenders}
    out: dict[str, str] = {}
    for number in range(rounds):
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            if contender.name in out:
                continue
            measured = _measure_calmly(contender, gate=gate, counts=counts, say=say)
            say(f"  round {number + 1}/{rounds}  {contender.name}: {_shown(measured)}")
            world_size = measured.facts.get("worldSize", contender.ranks)
            if world_size != contender.ranks:
                out[contender.name] = f"trained {world_size} rank, not {contender.ranks} together"
            found[contender.name].append(measured)
    return [Outcome(name, tuple(runs), out.get(name)) for name, runs in found.items()]


def _measure_calmly(
    contender: Contender, *, gate: bool, counts: Callable[[Measured], bool], say: Say
) -> Measured:
    for attempt in range(1, ATTEMPTS + 1):
        if gate and not wait_until_quiet(patience_seconds=PATIENCE_SECONDS):
            say(f"  others have kept the machine busy for {PATIENCE_SECONDS:.0f} s")
        measured = measure(contender, gate=gate)
        if counts(measured) or not gate:
            break
        say(f"  {contender.name}: disturbed ({measured.others_cores:.2f} cores), attempt {attempt}")
    return measured


def measure(contender: Contender, *, gate: bool) -> Measured:
    """One run in a folder of its own. Without `gate` every step counts, whatever others do."""
    folder = Path(tempfile.mkdtemp(prefix="bench-train-"))
    try:
        command = contender.command(folder)
        if contender.batch_size is None:
            finished = process.run(command, folder=folder)
            steps, facts = read_report(folder)
        else:
            with progress.following(folder, batch_size=contender.batch_size) as followed:
                finished = process.run(command, folder=folder)
            steps, facts = _read_job(folder, followed, warmup=contender.warmup)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not steps:
        raise BenchError(f"{contender.name}: no step was reported")
    run = Run.of(
        steps,
        windows=finished.windows,
        wall_seconds=finished.wall_seconds,
        same_work=contender.batch_size is None,
    )
    if not gate:
        return Measured(run.all_quiet(), others_cores=0.0, facts=facts)
    return Measured(run, others_cores=mean_cores(finished.windows), facts=facts)


def read_report(folder: Path) -> tuple[list[Step], dict[str, Any]]:
    """What a script of ours left in `folder/report.json`: steps, and the rest as facts."""
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    samples = report["samplesPerStep"]
    return [Step(start, end, samples) for start, end in report.pop("steps")], report


def _read_job(folder: Path, followed: Followed, *, warmup: int) -> tuple[list[Step], dict[str, Any]]:
    """The steps after the warm-up, each of the first ten being a line of its own, and what the job told."""
    metrics = progress.result_document(folder).get("metrics") or {}
    return followed.steps[warmup:], {**metrics, "precision": followed.last.get("precision")}


def _shown(measured: Measured) -> str:
    run = measured.run
    return (
        f"{run.samples_per_second:.1f} samples/s, {run.wall_seconds:.0f} s in all, "
        f"{run.quiet_share:.0%} of its steps undisturbed"
    )
