"""Measures training here and writes docs/performance.md: `make bench-train`. Exit 1 where a target is missed.

python -m tests.bench_train --quick                  each contender once, a few steps, nothing is written
python -m tests.bench_train --rows launchers,shares  these sections only
python -m tests.bench_train --pods                   the pinned pods too, on the test cluster (as root)
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from xeontrain_trainer.machine import parse_cpus

from tests.bench_train import report
from tests.bench_train.arithmetic import measure_arithmetic
from tests.bench_train.contest import contest
from tests.bench_train.machine import Host
from tests.bench_train.process import BenchError
from tests.bench_train.results import Result, Row, summarize
from tests.bench_train.rows import PIXELS, SECTIONS, Amount, Setting

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "build" / "bench-train.json"
PODS = "pods"


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints, writes."""
    args = _arguments(argv)
    if args.cpus:
        # Inherited by all contenders: the same CPUs for each of them.
        os.sched_setaffinity(0, parse_cpus(args.cpus))
    host, date = Host.here(), datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
    say(f"{host.sentence()}")
    try:
        with tempfile.TemporaryDirectory(prefix="bench-train-") as folder:
            setting = _setting(host, args=args, folder=Path(folder))
            results = {key: _section(key, setting=setting, args=args, date=date) for key in args.rows}
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if setting.arithmetic:
        _write("peak", text=report.peaks(setting.arithmetic, host=host, date=date))
    found = report.document(results, arithmetic=setting.arithmetic, host=host, date=date)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=2), encoding="utf-8")
    say(f"All figures: {RESULTS.relative_to(ROOT)}")
    return 0 if args.quick or all(result.met for rows in results.values() for result in rows) else 1


def say(text: str) -> None:
    """One line for who watches."""
    print(text, flush=True)


def _setting(host: Host, *, args: argparse.Namespace, folder: Path) -> Setting:
    arithmetic = None
    if not args.quick:
        say("GEMM peak of this machine")
        cpus = {1, min(2, host.cores), host.cores}
        arithmetic = measure_arithmetic(cpus=cpus, pixels=PIXELS, folder=folder)
    amount = Amount(steps=args.steps, whole_epoch=not args.quick)
    return Setting(host=host, amount=amount, arithmetic=arithmetic, folder=folder)


def _section(key: str, *, setting: Setting, args: argparse.Namespace, date: str) -> list[Result]:
    """Measures a section, prints it, and writes it where it is a measurement."""
    results = _measure(key, setting=setting, args=args)
    text = report.section(results, host=setting.host, date=date, rounds=args.rounds)
    say(f"\n{text}\n")
    if not args.quick:
        _write(key, text=text)
    return results


def _measure(key: str, *, setting: Setting, args: argparse.Namespace) -> list[Result]:
    if key == PODS:
        from tests.bench_train.pods import pod_results

        return pod_results(setting, rounds=args.rounds, gate=not args.quick, say=say)
    return [_measure_row(row, setting=setting, args=args) for row in SECTIONS[key](setting)]


def _measure_row(row: Row, *, setting: Setting, args: argparse.Namespace) -> Result:
    say(row.title)
    outcomes = contest(row.contenders, rounds=args.rounds, gate=not args.quick, counts=row.counts, say=say)
    return summarize(row, outcomes, arithmetic=setting.arithmetic)


def _write(key: str, *, text: str) -> None:
    PAGE.write_text(report.replaced(PAGE.read_text(encoding="utf-8"), key=key, text=text), encoding="utf-8")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default=",".join(SECTIONS), help=f"sections of {', '.join(SECTIONS)}")
    parser.add_argument("--pods", action="store_true", help="the section `pods` too")
    parser.add_argument("--rounds", type=int, help="runs of each contender, default 5 (--quick: 1)")
    parser.add_argument("--steps", type=int, help="steps that count, default 20 (--quick: 3)")
    parser.add_argument("--cpus", help="CPUs for all contenders, such as 0-7; default: all of this process")
    parser.add_argument("--quick", action="store_true", help="see that everything runs; measures nothing")
    args = parser.parse_args(argv)
    args.rows = [key for key in args.rows.split(",") if key] + [PODS] * args.pods
    unknown = set(args.rows) - {*SECTIONS, PODS}
    if unknown:
        parser.error(f"--rows: there is no {', '.join(sorted(unknown))}")
    args.rounds = args.rounds or (1 if args.quick else 5)
    args.steps = args.steps or (3 if args.quick else 20)
    return args


if __name__ == "__main__":
    sys.exit(main())
