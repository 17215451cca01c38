"""Meeting the other ranks: the store, the group's CPUs, decisions that all ranks share."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.unit.trainer.train import scenarios
from tests.unit.trainer.train.ranks import run_ranks, succeeded

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]


def test_communication_stays_on_its_cpus() -> None:
    """The store's and gloo's threads inherit the communication CPUs; the main thread and OpenMP's pool, made
    after them, compute where they did before."""
    everywhere = os.sched_getaffinity(0)
    cpu = max(everywhere)
    for rank, affinities in enumerate(succeeded(run_ranks(scenarios.thread_affinities, cpu, world_size=2))):
        computes = {name: cpus for name, cpus in affinities.items() if name.startswith(("main", "openmp"))}
        assert len(computes) == 3
        assert set(map(frozenset, computes.values())) == {frozenset(everywhere)}
        communicates = {name.split("/")[0]: cpus for name, cpus in affinities.items() if name not in computes}
        # Gloo's, whatever they are called: in older versions of torch they have the name of their maker.
        assert any(not name.startswith("pt_tcpstore") for name in communicates)
        assert any(name.startswith("pt_tcpstore") for name in communicates) == (rank == 0)
        assert set(map(frozenset, communicates.values())) == {frozenset({cpu})}


def test_probe_finds_the_slowest_rank() -> None:
    """Each way is as slow as in the rank where it is slowest, and all ranks run each way equally often."""
    seconds = [(0.04, 0.02), (0.02, 0.06)]
    (first, runs), (second, other_runs) = succeeded(run_ranks(scenarios.measure_ways, seconds, world_size=2))
    assert first == second
    assert runs == other_runs
    assert 0.04 <= first[0] < 0.055
    assert 0.06 <= first[1] < 0.075


def test_precision_is_one_decision() -> None:
    """A rank whose cores lack BF16 decides for all; each gives the same reason, which names it."""
    found = succeeded(run_ranks(scenarios.agree_on_cores, [None, "lack it"], world_size=2))
    assert found[0] == found[1]
    assert (found[0].name, found[0].reason) == ("FP32", "the cores of rank 1 (Xeon 1) lack it")


@pytest.mark.parametrize(("size", "answered"), [(1, 1), (2, 1)], ids=["each-alone", "one-is-silent"])
def test_a_group_of_another_size_never_trains(
    monkeypatch: pytest.MonkeyPatch, size: int, answered: int
) -> None:
    """Two separate trainings in silence are the worst failure there is."""
    from xeontrain_trainer.train import distributed
    from xeontrain_trainer.train.errors import RankLayoutError

    monkeypatch.setattr(distributed.dist, "get_world_size", lambda: size)
    monkeypatch.setattr(distributed.dist, "all_reduce", lambda tensor: tensor.fill_(answered))
    with pytest.raises(RankLayoutError, match=f"WORLD_SIZE is 2, .* has {size} ranks, of which 1 answered"):
        distributed._assert_world_size(2)


def test_store_without_libuv(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build of torch that lacks libuv says so only when asked for it; the store is then made without."""
    from xeontrain_trainer.train import distributed
    from xeontrain_trainer.train.environment import Environment

    asked: list[bool] = []

    def build_without_libuv(*arguments: Any, use_libuv: bool, **options: Any) -> str:
        asked.append(use_libuv)
        if use_libuv:
            raise RuntimeError("use_libuv was requested but PyTorch was built without libuv support")
        return "store"

    monkeypatch.delenv("USE_LIBUV", raising=False)
    monkeypatch.setattr(distributed, "TCPStore", build_without_libuv)
    environment = Environment.from_environ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1"})
    assert distributed.open_store(environment) == "store"
    assert asked == [True, False]
    monkeypatch.setenv("USE_LIBUV", "0")
    assert distributed.open_store(environment) == "store"
    assert asked == [True, False, False]
