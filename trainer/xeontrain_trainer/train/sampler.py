"""Which rows make which global batch, and which rank computes which of them.

Everything here is a pure function of (seed, epoch, rows): no state, so any rank can say at any time what any
other rank does, resume needs no replay, and another number of ranks trains on the same global batches.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Rows of like length are looked for among this many global batches: enough to save most of the padding,
# few enough that an epoch stays well mixed.
BATCHES_A_GROUP = 50


@dataclass(frozen=True)
class GlobalBatch:
    """The rows of one optimizer step, over all ranks, longest first. `number` counts from 0 in the epoch."""

    epoch: int
    number: int
    rows: tuple[int, ...]

    def slice_of(self, rank: int, *, world_size: int) -> tuple[int, ...]:
        """The rows that `rank` computes. Slices differ by one row at most; a small batch leaves some empty.

        Every world_size-th row, so that all ranks get rows of like length and wait for each other little.
        """
        return self.rows[rank::world_size]


def batches_in_epoch(num_rows: int, *, batch_size: int) -> int:
    """Global batches of an epoch; the last may be smaller."""
    return -(-num_rows // batch_size)


def global_batches(
    lengths: Sequence[int], *, batch_size: int, seed: int, epoch: int
) -> Iterator[GlobalBatch]:
    """The global batches of `epoch` in order. `lengths[i]` is the number of tokens of row i.

    Each row is in exactly one batch. All batches are full but the last, which has what remains.
    """
    order = _shuffled(len(lengths), seed=seed, epoch=epoch)
    grouped = _grouped_by_length(order, lengths=np.asarray(lengths), group=batch_size * BATCHES_A_GROUP)
    full, rest = divmod(len(order), batch_size)
    numbers = _shuffled(full, seed=seed, epoch=epoch, stream=1)
    starts = [int(number) * batch_size for number in numbers] + ([full * batch_size] if rest else [])
    for number, start in enumerate(starts):
        rows = tuple(int(row) for row in grouped[start : start + batch_size])
        yield GlobalBatch(epoch=epoch, number=number, rows=rows)


def micro_batches(rows: Sequence[int], *, pieces: int) -> list[Sequence[int]]:
    """`rows` cut into at most `pieces` contiguous pieces that differ by one row at most; none is empty.

    No rows make one empty piece: also a rank without rows takes part in the step's collectives.
    """
    count = max(1, min(pieces, len(rows)))
    bounds = [len(rows) * index // count for index in range(count + 1)]
    return [rows[low:high] for low, high in itertools.pairwise(bounds)]


def _grouped_by_length(
    order: NDArray[np.int64], *, lengths: NDArray[np.int64], group: int
) -> NDArray[np.int64]:
    pieces = [order[start : start + group] for start in range(0, len(order), group)]
    by_length = [piece[np.argsort(-lengths[piece], kind="stable")] for piece in pieces]
    return np.concatenate(by_length) if by_length else order


def _shuffled(count: int, *, seed: int, epoch: int, stream: int = 0) -> NDArray[np.int64]:
    """A permutation of range(count) that depends on nothing but the arguments.

    Made from a bit generator's raw words, which numpy promises to keep (NEP 19), unlike its permutations.
    """
    key = np.array([seed % 2**64, (epoch << 8) | stream], dtype=np.uint64)
    words = np.random.Philox(key=key).random_raw(count)
    return np.argsort(words, kind="stable")
