"""How long a step takes in each of several ways, measured by all ranks at the same time.

At the same time, because ranks of one machine share its memory's bandwidth: a rank alone would find itself
faster than it will be. In turn, because a machine's speed drifts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from . import distributed

# Enough rounds for a stable best at short steps; a long step is timed once, since it is long enough.
MOST_ROUNDS = 5
BUDGET_SECONDS = 0.6
_WARM_UPS = 2


def slowest_seconds(ways: Sequence[Callable[[], None]]) -> list[float]:
    """Seconds that each of `ways` takes in the slowest rank, there the best of its rounds: noise only adds.

    A collective: all ranks call it, with as many ways. Each is run a few times to warm caches up first.
    """
    for _ in range(_WARM_UPS - 1):
        for way in ways:
            way()
    (longest,) = distributed.largest([sum(_timed(way) for way in ways)])
    rounds = rounds_within(BUDGET_SECONDS, round_seconds=longest)
    best = [float("inf")] * len(ways)
    for _ in range(rounds):
        distributed.barrier()
        for index, way in enumerate(ways):
            best[index] = min(best[index], _timed(way))
    return distributed.largest(best)


def rounds_within(budget_seconds: float, *, round_seconds: float) -> int:
    """How many rounds fit, at least one."""
    return max(1, min(MOST_ROUNDS, int(budget_seconds / max(round_seconds, 1e-9))))


def _timed(way: Callable[[], None]) -> float:
    started = time.perf_counter()
    way()
    return time.perf_counter() - started
