"""From runs to the table: which ratio is shown, when a target is met, what of the page is exchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench_train.__main__ import PAGE, PODS
from tests.bench_train.arithmetic import MINILM, Arithmetic, Work
from tests.bench_train.contest import Contender, Measured, Outcome
from tests.bench_train.process import Command
from tests.bench_train.progress import Followed, following
from tests.bench_train.ratios import Run, Step
from tests.bench_train.report import _contest, _ladder, replaced
from tests.bench_train.results import Row, by_wall_time, summarize
from tests.bench_train.rows import SECTIONS

ARITHMETIC = Arithmetic(
    peaks={2: {"FP32": 1e11, "BF16": 2e11}},
    flops={MINILM: {64: 64e7 + 64**2 * 1e5, 128: 128e7 + 128**2 * 1e5}},
    padded={},
)


def _measured(seconds: float, *, others: float = 0.0, precision: str | None = None) -> Measured:
    """A run of three equal steps of 16 samples."""
    steps = tuple(Step(n * seconds, (n + 1) * seconds, 16) for n in range(3))
    run = Run(steps, (True,) * 3, wall_seconds=3 * seconds, same_work=True)
    return Measured(run, others_cores=others, facts={"precision": precision} if precision else {})


def _outcome(name: str, *seconds: float) -> Outcome:
    return Outcome(name, tuple(_measured(value) for value in seconds))


def _row(**options: object) -> Row:
    contender = Contender("x", lambda folder: Command(()), ranks=1)
    return Row(title="work", contenders=(contender,), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("others", "ratio", "met"),
    [
        pytest.param([(1.1, 1.1, 1.1), (1.5, 1.5, 1.5)], 1.1, True, id="ahead-of-both"),
        pytest.param([(1.5, 1.5, 1.5), (0.9, 0.9, 0.9)], 0.9, False, id="behind-the-best"),
        pytest.param([(0.9, 1.2, 1.2)], 1.2, True, id="the-median-decides"),
    ],
)
def test_the_target_is_for_the_best_of_the_others(
    others: list[tuple[float, ...]], ratio: float, met: bool
) -> None:
    """The smallest median ratio counts: it is the one to the fastest of the others."""
    outcomes = [_outcome("ours", 1, 1, 1), *(_outcome(str(n), *times) for n, times in enumerate(others))]
    result = summarize(_row(target=0.98), outcomes, arithmetic=None)
    assert result.ratio == pytest.approx(ratio)
    assert result.met is met
    assert ("**no**" in _contest(result)[0]) is not met


def test_nothing_compared_is_no_success() -> None:
    """A target is missed where all others did other work."""
    alone = Outcome("other", (_measured(1),), disqualified="trained 1 rank, not 2 together")
    result = summarize(_row(target=0.98), [_outcome("ours", 1), alone], arithmetic=None)
    assert not result.met
    assert "trained 1 rank" in _contest(result)[2]


def test_wall_time_counts_only_where_the_whole_run_was_calm() -> None:
    """A round in which others were busy gives no ratio of wall times."""
    ours = Outcome("ours", (_measured(1), _measured(1)))
    other = Outcome("other", (_measured(2), _measured(9, others=0.5)))
    result = summarize(_row(ratio=by_wall_time), [ours, other], arithmetic=None)
    assert result.ratio == pytest.approx(2.0)
    assert result.lines[1].ratio is not None
    assert result.lines[1].ratio.count == 1


def test_a_ladder_shows_each_changes_share() -> None:
    """Each line's ratio is to the line before, and their product that to the first."""
    result = summarize(
        _row(ladder=True), [_outcome(*one) for one in (("a", 4), ("b", 2), ("c", 1))], arithmetic=None
    )
    assert [line.ratio and line.ratio.median for line in result.lines] == [None, 2.0, 2.0]
    assert [line.to_first and line.to_first.median for line in result.lines] == [None, 2.0, 4.0]
    assert _ladder(result)[2].startswith("| c | 16.0 | 2.00 (2.00 to 2.00) | 4.00")


@pytest.mark.parametrize(
    ("length", "flops"),
    [
        pytest.param(64, 64e7 + 64**2 * 1e5, id="counted"),
        pytest.param(100, 100e7 + 100**2 * 1e5, id="between"),
    ],
)
def test_operations_of_a_text(length: float, flops: float) -> None:
    """A length that was not counted follows from two that were: linear and quadratic parts."""
    work = Work(MINILM, length=length, number_format="FP32", cpus=2)
    assert ARITHMETIC.flops_a_sample(work) == pytest.approx(flops)


def test_share_is_of_the_format_that_the_job_chose() -> None:
    """A job that fell back to FP32 is held against the peak of FP32."""
    work = {name: Work(MINILM, length=64, number_format="BF16", cpus=2) for name in ("ours", "other")}
    outcomes = [Outcome("ours", (_measured(1, precision="FP32"),)), Outcome("other", (_measured(1),))]
    ours, other = summarize(_row(work=work), outcomes, arithmetic=ARITHMETIC).lines
    assert ours.share_of_peak is not None
    assert other.share_of_peak is not None
    assert ours.share_of_peak == pytest.approx(2 * other.share_of_peak)


def test_steps_from_a_jobs_progress(tmp_path: Path) -> None:
    """A line of progress is a span of all steps since the line before, as long as its rate says."""
    with following(tmp_path, batch_size=16) as followed:
        folder = tmp_path / "out" / "worker-0"
        folder.mkdir(parents=True)
        lines = ['{"step": 1, "samplesPerSecond": 8}', '{"step": 4, "samplesPerSecond": 24}']
        (folder / "progress.jsonl").write_text("\n".join(lines) + '\n{"step": 5, "samp')
    assert isinstance(followed, Followed)
    assert [(step.samples, round(step.seconds, 6)) for step in followed.steps] == [(16, 2.0), (48, 2.0)]


def test_only_the_named_section_is_exchanged() -> None:
    """Text between the markers of one section changes, all else stays; a page without them is refused."""
    page = "a\n<!-- bench-train: x -->\nold\n<!-- bench-train: end of x -->\nb\n"
    assert replaced(page, key="x", text="new") == page.replace("old", "new")
    with pytest.raises(ValueError, match="no markers"):
        replaced(page, key="y", text="new")


@pytest.mark.parametrize("key", [*SECTIONS, PODS, "peak"])
def test_the_page_has_a_place_for_every_section(key: str) -> None:
    """A run of two hours does not end with a page that cannot take its table."""
    assert "placed" in replaced(PAGE.read_text(encoding="utf-8"), key=key, text="placed")
