"""Which steps of a benchmark count, and what a contender's rate and its ratio to another are made of."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from tests.bench_train.quiet import Clock, Window, is_quiet, mean_cores, read_clock, window_between
from tests.bench_train.ratios import Run, Spread, Step, speed_ratio

CALM_THEN_BUSY = (Window(0, 1, 0.0), Window(1, 2, 0.05), Window(2, 3, 0.9), Window(3, 4, 0.02))


@pytest.mark.parametrize(
    ("start", "end", "quiet"),
    [
        pytest.param(0.2, 0.8, True, id="within-a-calm-window"),
        pytest.param(0.5, 2.0, True, id="ends-where-the-noise-begins"),
        pytest.param(1.9, 2.1, False, id="touches-the-noise"),
        pytest.param(2.2, 2.3, False, id="within-the-noise"),
        pytest.param(3.0, 3.5, True, id="begins-where-the-noise-ends"),
        pytest.param(7.0, 8.0, False, id="nobody-looked"),
    ],
)
def test_a_step_counts_only_while_others_are_quiet(start: float, end: float, quiet: bool) -> None:
    """One disturbed window that touches a step takes it out; a step that was not watched never counts."""
    assert is_quiet(start, end, windows=CALM_THEN_BUSY) is quiet


@pytest.mark.parametrize(
    ("machine", "own", "cores"),
    [
        pytest.param(2.0, 2.0, 0.0, id="all-of-it-ours"),
        pytest.param(3.0, 2.0, 0.5, id="half-a-core-others"),
        pytest.param(1.98, 2.0, 0.0, id="coarse-ticks"),
    ],
)
def test_others_are_the_machine_without_us(machine: float, own: float, cores: float) -> None:
    """CPU seconds of the machine less our own, over the time between the looks."""
    window = window_between(Clock(10.0, 100.0, 50.0), Clock(12.0, 100.0 + machine, 50.0 + own))
    assert window.cores == pytest.approx(cores)
    assert mean_cores([window, window]) == pytest.approx(cores)


def test_a_child_that_has_ended_was_ours() -> None:
    """What a child burned is among our own CPU seconds also after its end: else it would count as others'."""
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    before = read_clock()
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert read_clock().own - before.own >= 0.45


def _run(seconds: list[float], *, quiet: list[bool] | None = None, same_work: bool = True) -> Run:
    steps, now = [], 0.0
    for duration in seconds:
        steps.append(Step(now, now + duration, 16))
        now += duration
    return Run(tuple(steps), tuple(quiet or [True] * len(steps)), wall_seconds=now, same_work=same_work)


def test_rate_is_over_undisturbed_steps() -> None:
    """A step that was disturbed adds neither samples nor seconds."""
    run = _run([1.0, 9.0, 1.0], quiet=[True, False, True])
    assert run.samples_per_second == 16
    assert run.counts
    assert not _run([1.0, 1.0, 1.0], quiet=[True, False, False]).counts
    assert math.isnan(_run([1.0], quiet=[False]).samples_per_second)


@pytest.mark.parametrize(
    ("ours", "other", "ratio"),
    [
        pytest.param(_run([1, 2]), _run([2, 4]), 2.0, id="twice-as-fast"),
        pytest.param(
            _run([1, 8, 1], quiet=[True, False, True]),
            _run([1, 1, 1]),
            1.0,
            id="disturbed-in-one-out-of-both",
        ),
        pytest.param(
            _run([1, 4], quiet=[True, False]),
            _run([1, 4], quiet=[False, True]),
            math.nan,
            id="no-step-undisturbed-in-both",
        ),
        pytest.param(_run([1, 1], same_work=False), _run([2]), 2.0, id="other-steps-by-rate"),
    ],
)
def test_ratio(ours: Run, other: Run, ratio: float) -> None:
    """Same steps are compared one by one where both were undisturbed, other steps by their rate."""
    assert speed_ratio(ours, other) == pytest.approx(ratio, nan_ok=True)


def test_spread_leaves_out_what_is_no_number() -> None:
    """Median, quartiles and bounds of the rounds that can be compared."""
    spread = Spread.of([1.0, math.nan, 3.0, 2.0])
    assert spread == Spread(median=2.0, low=1.5, high=2.5, least=1.0, most=3.0, count=3)
    assert Spread.of([math.nan]) is None
    single = Spread.of([4.0])
    assert single is not None
    assert (single.low, single.median, single.high) == (4.0, 4.0, 4.0)
