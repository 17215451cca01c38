"""The plan's promises on many generated machines: `make plan-check`.

    python -m tests.unit.trainer.plan.check [--machines N] [--seed S]

A failure names the seed that makes the same machine again.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter

from tests.unit.trainer.machines import random_pair
from tests.unit.trainer.plan.invariants import check, random_request


def run(*, machines: int, seed: int) -> Counter[str]:
    """Checks so many machines; raises AssertionError at the first broken promise. Returns what was seen."""
    seen: Counter[str] = Counter()
    for number in range(seed, seed + machines):
        rng = random.Random(number)
        machine = random_pair(rng).granted
        request = random_request(rng, machine)
        try:
            plan = check(machine, request)
        except Exception as error:
            raise AssertionError(f"seed {number}: {error!r}\n{machine}\n{request}") from error
        seen["machines"] += 1
        seen["ranks"] += len(plan.ranks)
        seen["pinned"] += plan.bound
        seen["across nodes"] += any(len(rank.nodes) > 1 for rank in plan.ranks)
        seen["communication CPUs"] += bool(plan.ranks[0].comm_cpus)
        seen["hybrid"] += len({cpu.efficient for cpu in machine.cpus}) > 1
    return seen


def main() -> None:
    """Says what was checked, and in how many seconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--machines", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    started = time.monotonic()
    seen = run(machines=arguments.machines, seed=arguments.seed)
    figures = ", ".join(f"{name} {number}" for name, number in seen.items())
    print(f"all promises kept in {time.monotonic() - started:.1f} s: {figures}")


if __name__ == "__main__":
    main()
