"""The order of rows: each exactly once an epoch, the same global batches for any number of ranks."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xeontrain_trainer.train.sampler import batches_in_epoch, global_batches, micro_batches

Case = tuple[int, int]
CASES: list[Case] = [(1, 1), (1, 16), (16, 16), (17, 16), (100, 7), (1000, 16), (2000, 16)]


def lengths_of(num_rows: int) -> list[int]:
    return [random.Random(row).randint(3, 64) for row in range(num_rows)]


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 16])
@pytest.mark.parametrize(("num_rows", "batch_size"), CASES)
def test_ranks_together_see_each_row_once(num_rows: int, batch_size: int, world_size: int) -> None:
    """In every epoch the union over ranks is every row exactly once; slices differ by one row at most."""
    lengths = lengths_of(num_rows)
    for epoch in range(3):
        seen: list[int] = []
        for batch in global_batches(lengths, batch_size=batch_size, seed=7, epoch=epoch):
            slices = [batch.slice_of(rank, world_size=world_size) for rank in range(world_size)]
            sizes = [len(rows) for rows in slices]
            assert max(sizes) - min(sizes) <= 1
            assert sorted(row for rows in slices for row in rows) == sorted(batch.rows)
            seen += [row for rows in slices for row in rows]
        assert sorted(seen) == list(range(num_rows))


@pytest.mark.parametrize(("num_rows", "batch_size"), CASES)
def test_only_the_last_batch_is_small(num_rows: int, batch_size: int) -> None:
    """No row is padded or dropped: all batches are full but the last, which has the rest."""
    sizes = [
        len(batch.rows)
        for batch in global_batches(lengths_of(num_rows), batch_size=batch_size, seed=1, epoch=0)
    ]
    assert len(sizes) == batches_in_epoch(num_rows, batch_size=batch_size)
    assert all(size == batch_size for size in sizes[:-1])
    assert sizes[-1] == (num_rows % batch_size or batch_size)


def test_batches_are_a_function_of_seed_and_epoch() -> None:
    """The same arguments give the same batches; another seed or epoch gives others."""
    lengths = lengths_of(200)

    def batches(*, seed: int, epoch: int) -> list[tuple[int, ...]]:
        return [batch.rows for batch in global_batches(lengths, batch_size=16, seed=seed, epoch=epoch)]

    assert batches(seed=1, epoch=0) == batches(seed=1, epoch=0)
    others = [batches(seed=2, epoch=0), batches(seed=1, epoch=1), batches(seed=2, epoch=1)]
    assert all(other != batches(seed=1, epoch=0) for other in others)
    assert others[0] != others[1]


def test_order_is_frozen() -> None:
    """A run that resumes after an upgrade of numpy or of ours must find the same order."""
    batches = [batch.rows for batch in global_batches([5] * 10, batch_size=4, seed=42, epoch=1)]
    assert batches == [(5, 7, 2, 4), (8, 0, 3, 6), (1, 9)]


def test_rows_of_like_length_come_together() -> None:
    """Length groups save most of the padding that a plain shuffle would need."""
    lengths = lengths_of(3200)
    padded = sum(
        max(lengths[row] for row in batch.rows) * len(batch.rows)
        for batch in global_batches(lengths, batch_size=16, seed=3, epoch=0)
    )
    assert padded < 1.1 * sum(lengths)


def test_batches_are_not_sorted_by_length() -> None:
    """The model must not see all long texts first: the order of batches is shuffled."""
    lengths = lengths_of(800)
    longest = [
        max(lengths[row] for row in batch.rows)
        for batch in global_batches(lengths, batch_size=16, seed=3, epoch=0)
    ]
    assert longest != sorted(longest, reverse=True)
    assert longest != sorted(longest)


@given(st.integers(min_value=1, max_value=100), st.integers(min_value=1, max_value=12))
def test_micro_batches_cut_without_loss(num_rows: int, pieces: int) -> None:
    """The pieces put together are the rows; none is empty; they differ by one row at most."""
    rows = list(range(num_rows))
    cut = micro_batches(rows, pieces=pieces)
    assert [row for piece in cut for row in piece] == rows
    assert len(cut) == min(pieces, num_rows)
    assert max(map(len, cut)) - min(map(len, cut)) <= 1


def test_no_rows_make_one_empty_piece() -> None:
    """A rank without rows still has one piece, with which it takes part in the exchange of gradients."""
    assert micro_batches([], pieces=4) == [[]]
