"""Runs histories of the gang from seeds: `python -m tests.unit.trainer.gang.simulate --histories 10000`.

A history is a function of its number alone, so any one can be run again: `--first 4711 --histories 1`.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.unit.trainer.gang.world import Scenario, Violation, World

LARGE = 512
CHUNK = 50


def run_history(number: int, *, workers: int | None = None) -> str:
    """One history, of 1 to 16 workers unless told otherwise; returns the outcome. Raises Violation."""
    rng = random.Random(number)
    drawn = rng.choice((1, 2, 2, 3, 3, 4, 5, 6, 8, rng.randint(9, 16)))
    scenario = Scenario.draw(rng, workers=workers or drawn)
    try:
        return World(scenario, rng).run()
    except Violation as violation:
        raise Violation(f"history {number} ({scenario}): {violation}") from None


def run_histories(numbers: Iterable[int], *, workers: int | None = None) -> Counter[str]:
    """Several histories; how many ended in which outcome."""
    return Counter(run_history(number, workers=workers) for number in numbers)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument("--histories", type=int, default=10000, help="histories of 1 to 16 workers")
    parser.add_argument("--large-histories", type=int, default=50, help=f"histories of {LARGE} workers")
    parser.add_argument("--first", type=int, default=0, help="number of the first history")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    ends: Counter[str] = Counter()
    with ProcessPoolExecutor(options.processes) as pool:
        for count, workers, size in ((options.histories, None, CHUNK), (options.large_histories, LARGE, 1)):
            started = time.monotonic()
            last = options.first + count
            chunks = [range(n, min(n + size, last)) for n in range(options.first, last, size)]
            for chunk in pool.map(partial(run_histories, workers=workers), chunks):
                ends.update(chunk)
            label = f"of {workers} workers" if workers else "of 1 to 16 workers"
            print(f"{count} histories {label} in {time.monotonic() - started:.1f} s")
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(ends.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
