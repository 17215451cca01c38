"""The results as Markdown between markers of docs/performance.md, and as JSON."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.bench_train.arithmetic import Arithmetic
from tests.bench_train.machine import Host
from tests.bench_train.ratios import Spread
from tests.bench_train.results import Line, Result

CONTEST_HEADER = (
    "| Work, and who does it | samples/s | start to end, s | ours is faster by | needed | of GEMM peak |",
    "|---|---|---|---|---|---|",
)
LADDER_HEADER = (
    "| Change | samples/s | times the line before | times the first line |",
    "|---|---|---|---|",
)


def replaced(page: str, *, key: str, text: str) -> str:
    """The page with what stands between the markers of `key` exchanged. Raises ValueError without them."""
    begin, end = f"<!-- bench-train: {key} -->", f"<!-- bench-train: end of {key} -->"
    pattern = re.compile(f"({re.escape(begin)}\n).*?({re.escape(end)})", re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"the page has no markers {begin} and {end}")
    return pattern.sub(lambda match: f"{match[1]}{text}\n{match[2]}", page)


def section(results: Sequence[Result], *, host: Host, date: str, rounds: int) -> str:
    """One section: on what and when, then its tables."""
    measured = f"Measured on {date}, {rounds} rounds: {host.sentence()}."
    contests = [result for result in results if not result.ladder]
    ladders = [result for result in results if result.ladder]
    tables = (
        [[*CONTEST_HEADER, *(row for result in contests for row in _contest(result))]] if contests else []
    )
    tables += [[*LADDER_HEADER, *_ladder(result)] for result in ladders]
    return "\n\n".join([measured, *("\n".join(table) for table in tables)])


def peaks(arithmetic: Arithmetic, *, host: Host, date: str) -> str:
    """The measured peaks as a table, and what a sample costs."""
    rows = [
        f"| {cpus} | {peak['FP32'] / 1e9:.0f} | {peak['BF16'] / 1e9:.0f} |"
        for cpus, peak in sorted(arithmetic.peaks.items())
    ]
    costs = ", ".join(
        f"{model} at {length}: {flops / 1e9:.2f} GFLOP"
        for model, by in arithmetic.flops.items()
        for length, flops in by.items()
    )
    header = ("| Threads | FP32, GFLOP/s | BF16, GFLOP/s |", "|---|---|---|")
    table = "\n".join((*header, *rows))
    return (
        f"Measured on {date}: {host.sentence()}.\n\n{table}\n\nForward and backward of one sample: {costs}."
    )


def document(
    sections: Mapping[str, Sequence[Result]], *, arithmetic: Arithmetic | None, host: Host, date: str
) -> dict[str, Any]:
    """Everything as JSON."""
    return {
        "date": date,
        "machine": host.document(),
        "arithmetic": dataclasses.asdict(arithmetic) if arithmetic else None,
        "sections": {
            key: [dataclasses.asdict(result) | {"met": result.met} for result in results]
            for key, results in sections.items()
        },
    }


def _contest(result: Result) -> list[str]:
    needed = "" if result.target is None else f">= {result.target:g}: {'yes' if result.met else '**no**'}"
    title = f"| **{result.title}** | | | | {needed} | |"
    return [title, *(_contest_line(line) for line in result.lines)]


def _contest_line(line: Line) -> str:
    if line.disqualified:
        return f"| {_named(line)} | | | {line.disqualified} | | |"
    share = "" if line.share_of_peak is None else f"{line.share_of_peak:.0%}"
    return (
        f"| {_named(line)} | {_median(line.samples_per_second, digits=1)} | "
        f"{_median(line.wall_seconds, digits=0)} | {_with_spread(line.ratio)} | | {share} |"
    )


def _ladder(result: Result) -> list[str]:
    return [
        f"| {line.name} | {_median(line.samples_per_second, digits=1)} | {_with_spread(line.ratio)} | "
        f"{_with_spread(line.to_first)} |"
        for line in result.lines
    ]


def _named(line: Line) -> str:
    """With what a reader must know to compare: the precision that a job chose, the accuracy reached."""
    notes = [str(line.facts["precision"])] if line.facts.get("precision") else []
    accuracy = line.facts.get("accuracy", line.facts.get("evalAccuracy"))
    notes += [f"accuracy {accuracy:.3f}"] if accuracy is not None else []
    return f"{line.name} ({', '.join(notes)})" if notes else line.name


def _median(spread: Spread | None, *, digits: int) -> str:
    return "" if spread is None else f"{spread.median:.{digits}f}"


def _with_spread(spread: Spread | None) -> str:
    """Median, and least to most over the rounds."""
    return "" if spread is None else f"{spread.median:.2f} ({spread.least:.2f} to {spread.most:.2f})"
