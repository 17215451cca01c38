"""A rank's place: read from torchrun's names, refused where numbers contradict each other."""

from __future__ import annotations

import pytest
from xeontrain_trainer.train.environment import Environment
from xeontrain_trainer.train.errors import RankLayoutError

TWO_BY_TWO = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "10.0.0.1",
    "XEONTRAIN_WORKERS": "2",
}


def test_alone() -> None:
    """Without torchrun's names a process is rank 0 of 1, prepares the data and reports."""
    alone = Environment.from_environ({})
    assert (alone.rank, alone.world_size, alone.group_world_size) == (0, 1, 1)
    assert alone.is_main
    assert alone.prepares_data
    assert alone.job_dir is None


def test_place_in_a_group() -> None:
    """Rank 3 of two workers of two ranks is the second of worker 1: it neither reports nor prepares."""
    place = Environment.from_environ(TWO_BY_TWO)
    assert (place.rank, place.local_rank, place.group_rank, place.group_world_size) == (3, 1, 1, 2)
    assert not place.is_main
    assert not place.prepares_data


@pytest.mark.parametrize(
    "change",
    [
        {"WORLD_SIZE": ""},
        {"WORLD_SIZE": "2"},
        {"XEONTRAIN_WORKERS": "3"},
        {"LOCAL_WORLD_SIZE": "1"},
        {"RANK": "4"},
        {"LOCAL_RANK": "2"},
        {"MASTER_ADDR": ""},
        {"RANK": "three"},
    ],
    ids=lambda change: "-".join(f"{name}={value}" for name, value in change.items()),
)
def test_contradictions_are_refused(change: dict[str, str]) -> None:
    """Numbers that would make ranks train separately, or wait for ever, end the rank at once."""
    with pytest.raises(RankLayoutError):
        Environment.from_environ({**TWO_BY_TWO, **change})
