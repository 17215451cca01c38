"""From the runs of a row to its figures: rates, ratios with their spread, share of the peak, target. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.bench_train.arithmetic import Arithmetic, Work
from tests.bench_train.contest import Contender, Measured, Outcome
from tests.bench_train.ratios import Spread, speed_ratio

Ratio = Callable[[Measured, Measured], float]


def by_steps(ours: Measured, other: Measured) -> float:
    """How many times as fast the steps of `ours` were; NaN where too many were disturbed."""
    if not (ours.run.counts and other.run.counts):
        return math.nan
    return speed_ratio(ours.run, other.run)


def by_wall_time(ours: Measured, other: Measured) -> float:
    """How many times as soon `ours` was done, from its start to its end; NaN where one was disturbed."""
    if not (ours.is_calm and other.is_calm):
        return math.nan
    return other.run.wall_seconds / ours.run.wall_seconds


def steps_count(measured: Measured) -> bool:
    """Enough steps were undisturbed."""
    return measured.run.counts


def wall_counts(measured: Measured) -> bool:
    """The whole run was undisturbed."""
    return measured.is_calm


@dataclass(frozen=True)
class Row:
    """A piece of work and who does it. The first contender is compared with each of the others.

    `target`: what the median of each of these ratios must reach. `work`: by contender, for the share of the
    peak. `ladder`: each contender is compared with the one before it instead, and with the first.
    """

    title: str
    contenders: tuple[Contender, ...]
    ratio: Ratio = by_steps
    counts: Callable[[Measured], bool] = steps_count
    target: float | None = None
    work: Mapping[str, Work] = field(default_factory=dict)
    ladder: bool = False


@dataclass(frozen=True)
class Line:
    """A contender's figures. `ratio`: of the row's first to it, or in a ladder of it to the one before;
    `to_first`: in a ladder, of it to the first."""

    name: str
    samples_per_second: Spread | None
    wall_seconds: Spread | None
    ratio: Spread | None = None
    to_first: Spread | None = None
    share_of_peak: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    disqualified: str | None = None


@dataclass(frozen=True)
class Result:
    """A row's lines, in the order of its contenders."""

    title: str
    lines: tuple[Line, ...]
    target: float | None
    ladder: bool

    @property
    def ratio(self) -> float | None:
        """The smallest median of the ratios that the target is for; None where nothing could be compared."""
        medians = [line.ratio.median for line in self.lines if line.ratio]
        return min(medians) if medians else None

    @property
    def met(self) -> bool:
        """Whether the target is reached; a row without one is met, one without figures is not."""
        return self.target is None or (self.ratio is not None and self.ratio >= self.target)


def summarize(row: Row, outcomes: Sequence[Outcome], *, arithmetic: Arithmetic | None) -> Result:
    """The figures of a row."""
    lines = []
    for number, outcome in enumerate(outcomes):
        base = outcomes[max(0, number - 1)] if row.ladder else outcomes[0]
        pair = (outcome, base) if row.ladder else (base, outcome)
        compared = number > 0 and outcome.disqualified is None
        rate = Spread.of(
            measured.run.samples_per_second for measured in outcome.rounds if row.counts(measured)
        )
        facts = outcome.rounds[-1].facts if outcome.rounds else {}
        lines.append(
            Line(
                name=outcome.name,
                samples_per_second=rate,
                wall_seconds=Spread.of(measured.run.wall_seconds for measured in outcome.rounds),
                ratio=_ratios(*pair, ratio=row.ratio) if compared else None,
                to_first=_ratios(outcome, outcomes[0], ratio=row.ratio) if row.ladder and compared else None,
                share_of_peak=_share(
                    rate, work=row.work.get(outcome.name), facts=facts, arithmetic=arithmetic
                ),
                facts=facts,
                disqualified=outcome.disqualified,
            )
        )
    return Result(title=row.title, lines=tuple(lines), target=row.target, ladder=row.ladder)


def _ratios(first: Outcome, second: Outcome, *, ratio: Ratio) -> Spread | None:
    """Of the runs of the same round, which are near in time."""
    return Spread.of(ratio(a, b) for a, b in zip(first.rounds, second.rounds, strict=False))


def _share(
    rate: Spread | None, *, work: Work | None, facts: Mapping[str, Any], arithmetic: Arithmetic | None
) -> float | None:
    if rate is None or work is None or arithmetic is None:
        return None
    # A job says itself which format its ranks have agreed on.
    work = replace(work, number_format=facts.get("precision") or work.number_format)
    return arithmetic.share_of_peak(rate.median, work=work)
