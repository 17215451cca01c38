"""From steps to rates, from rates to ratios with their spread. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median, quantiles
from typing import NamedTuple

from tests.bench_train.quiet import Window, is_quiet

# Of a run's steps at least this share must have been quiet for the run to count.
NEEDED_QUIET = 0.5


class Step(NamedTuple):
    """One optimizer step, or several that were reported together: seconds of time.monotonic, and samples."""

    start: float
    end: float
    samples: int

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.start


@dataclass(frozen=True)
class Run:
    """One run of a contender: its steps after the warm-up, and which of them were undisturbed.

    `same_work`: whether step i is the same work in every run of the row, so that steps can be compared one
    by one.
    """

    steps: tuple[Step, ...]
    quiet: tuple[bool, ...]
    wall_seconds: float
    same_work: bool = False

    @classmethod
    def of(
        cls,
        steps: Iterable[Step],
        *,
        windows: Sequence[Window],
        wall_seconds: float,
        same_work: bool = False,
    ) -> Run:
        """Judges each step by what others did meanwhile."""
        taken = tuple(steps)
        quiet = tuple(is_quiet(step.start, step.end, windows=windows) for step in taken)
        return cls(steps=taken, quiet=quiet, wall_seconds=wall_seconds, same_work=same_work)

    def all_quiet(self) -> Run:
        """The same, with no step left out."""
        return replace(self, quiet=(True,) * len(self.steps))

    @property
    def quiet_share(self) -> float:
        """The part of its steps that counts."""
        return sum(self.quiet) / len(self.steps) if self.steps else 0.0

    @property
    def counts(self) -> bool:
        """Whether enough of its steps were undisturbed."""
        return self.quiet_share >= NEEDED_QUIET

    @property
    def samples_per_second(self) -> float:
        """Over the undisturbed steps; NaN where there is none."""
        counted = [step for step, quiet in zip(self.steps, self.quiet, strict=True) if quiet]
        seconds = sum(step.seconds for step in counted)
        return sum(step.samples for step in counted) / seconds if seconds else math.nan


def speed_ratio(ours: Run, other: Run) -> float:
    """How many times as fast as `other` `ours` was.

    Where both did the same steps, over those that were undisturbed in both: a disturbed step of one takes the
    same work out of the other. NaN where nothing can be compared.
    """
    if not (ours.same_work and other.same_work and len(ours.steps) == len(other.steps)):
        return ours.samples_per_second / other.samples_per_second
    both = [
        (mine.seconds, theirs.seconds)
        for mine, theirs, a, b in zip(ours.steps, other.steps, ours.quiet, other.quiet, strict=True)
        if a and b
    ]
    mine, theirs = (sum(column) for column in zip(*both, strict=True)) if both else (math.nan, math.nan)
    return theirs / mine


@dataclass(frozen=True)
class Spread:
    """Median, quartiles and bounds of a figure over the rounds."""

    median: float
    low: float
    high: float
    least: float
    most: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        """Of the values that are numbers; None where none is."""
        known = sorted(value for value in values if math.isfinite(value))
        if not known:
            return None
        low, _, high = quantiles(known, n=4, method="inclusive") if len(known) > 1 else known * 3
        return cls(median(known), low, high, known[0], known[-1], len(known))
