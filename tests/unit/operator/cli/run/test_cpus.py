"""CPUs are shared out without overlap."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xeontrain_operator.cli.files import InputError
from xeontrain_operator.cli.run.cpus import as_list, share_out, usable_cpus


@given(
    cpus=st.lists(st.integers(0, 511), min_size=1, max_size=64, unique=True),
    workers=st.integers(1, 64),
    asked_millis=st.integers(1, 64_000),
)
def test_shares(cpus: list[int], workers: int, asked_millis: int) -> None:
    """Shares are disjoint, equal, within what there is, and never more than asked (rounded up)."""
    if workers > len(cpus):
        with pytest.raises(InputError, match=r"lower spec\.workers"):
            share_out(cpus, workers=workers, asked_millis=asked_millis)
        return
    shares = share_out(cpus, workers=workers, asked_millis=asked_millis)
    flat = [cpu for share in shares.cpus for cpu in share]
    assert len(flat) == len(set(flat))
    assert set(flat) <= set(cpus)
    assert len({len(share) for share in shares.cpus}) == 1
    size = len(shares.cpus[0])
    assert 1 <= size <= -(-asked_millis // 1000)
    assert shares.is_short == (size < asked_millis / 1000)
    assert not shares.is_short or size == len(cpus) // workers


def test_neighbours_stay_together() -> None:
    """A share is a run of the given order, so that threads of a core go to one worker."""
    shares = share_out([0, 4, 1, 5, 2, 6, 3, 7], workers=2, asked_millis=4000)
    assert shares.cpus == ((0, 1, 4, 5), (2, 3, 6, 7))


def test_usable_cpus_are_those_of_this_process() -> None:
    """Only CPUs that this process may run on are shared out, each once."""
    assert sorted(usable_cpus()) == sorted(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("cpus", "text"),
    [((), ""), ((3,), "3"), ((0, 1, 2, 3), "0-3"), ((0, 1, 2, 3, 8), "0-3,8"), ((5, 1, 3), "1,3,5")],
)
def test_as_list(cpus: tuple[int, ...], text: str) -> None:
    """Written as the kernel does."""
    assert as_list(cpus) == text
