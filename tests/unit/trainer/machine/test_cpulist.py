"""The kernel's list format is read and written without loss."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xeontrain_trainer.machine import format_cpus, parse_cpus


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        pytest.param("", (), id="empty"),
        pytest.param("\n", (), id="blank"),
        pytest.param("0", (0,), id="one"),
        pytest.param("0-3,8", (0, 1, 2, 3, 8), id="range-and-number"),
        pytest.param("8,0-3\n", (0, 1, 2, 3, 8), id="order-does-not-matter"),
        pytest.param("0-10:2", (0, 2, 4, 6, 8, 10), id="stride"),
        pytest.param("0-7:2/4", (0, 1, 4, 5), id="used-of-group"),
        pytest.param("0-1,1-2", (0, 1, 2), id="overlap"),
        pytest.param("3\x00", (3,), id="trailing-nul"),
    ],
)
def test_reads(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_cpus(text) == numbers


@pytest.mark.parametrize("text", ["a", "3-1", "1-", "-1", "1-2:0", "0x3", "1..3"])
def test_names_the_part_that_is_not_a_list(text: str) -> None:
    with pytest.raises(ValueError, match="is not part of a CPU list"):
        parse_cpus(f"0,{text}")


@given(st.sets(st.integers(0, 2000)))
def test_round_trip(numbers: set[int]) -> None:
    """Any set survives being written and read, and neighbours are joined."""
    text = format_cpus(numbers)
    assert parse_cpus(text) == tuple(sorted(numbers))
    assert text.count(",") <= len(numbers)
