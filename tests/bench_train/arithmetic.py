"""The machine's measured GEMM peak and what a sample costs, for the share of it that a run reaches."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench_train import process
from tests.bench_train.jobs import TRAIN_FILE
from tests.bench_train.process import Command

SCRIPT = Path(__file__).parent / "scripts" / "arithmetic.py"
MINILM, RESNET = "minilm", "resnet"


@dataclass(frozen=True)
class Work:
    """What a contender computes for one sample: a text of `length` tokens, or a picture of `length` pixels a
    side, in a number format (BF16 or FP32), on `cpus` CPUs."""

    model: str
    length: float
    number_format: str
    cpus: int


@dataclass(frozen=True)
class Arithmetic:
    """`peaks[cpus][format]`: operations a second. `flops[model][length]`: operations a sample.

    `padded[longest][batch size]`: mean tokens of a text in the built-in task's batches.
    """

    peaks: Mapping[int, Mapping[str, float]]
    flops: Mapping[str, Mapping[int, float]]
    padded: Mapping[int, Mapping[int, float]]

    def flops_a_sample(self, work: Work) -> float:
        """Operations of forward and backward.

        Texts: a x length + b x length^2 through the two lengths that were counted. Pictures: as counted.
        """
        counted = self.flops[work.model]
        if work.length in counted:
            return counted[int(work.length)]
        (short, low), (long, high) = sorted(counted.items())
        square = (high / long - low / short) / (long - short)
        return work.length * (low / short + square * (work.length - short))

    def share_of_peak(self, samples_per_second: float, *, work: Work) -> float:
        """The part of the measured peak of the same CPUs and number format."""
        return samples_per_second * self.flops_a_sample(work) / self.peaks[work.cpus][work.number_format]


def measure_arithmetic(*, cpus: Iterable[int], pixels: int, folder: Path) -> Arithmetic:
    """Measures the peak on each of these numbers of CPUs and counts operations; 15 seconds each."""
    documents = {}
    for count in sorted(set(cpus)):
        own = folder / f"peak-{count}"
        own.mkdir()
        report = own / "report.json"
        options = ("--pixels", str(pixels), "--texts", str(TRAIN_FILE), "--report", str(report))
        command = Command((sys.executable, str(SCRIPT), *options), environ={"OMP_NUM_THREADS": str(count)})
        process.run(command, folder=own)
        documents[count] = json.loads(report.read_text(encoding="utf-8"))
    counted = next(iter(documents.values()))
    return Arithmetic(
        peaks={count: document["peak"] for count, document in documents.items()},
        flops={model: _numbered(by) for model, by in counted["flops"].items()},
        padded={int(longest): _numbered(by) for longest, by in counted["padded"].items()},
    )


def _numbered(by: Mapping[str, float]) -> dict[int, float]:
    return {int(number): value for number, value in by.items()}
