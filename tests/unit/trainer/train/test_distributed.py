"""Meeting the other ranks: the store, the group's CPUs, decisions that all ranks share."""

from __future__ import annotations

import os
from typing import Any

import pytest
from xeontrain_trainer.threads import COMMUNICATION_NAMES

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
        assert {name for name in communicates if name.startswith(COMMUNICATION_NAMES)} >= {"gloo_tcp_loop"}
        assert any(name.startswith("pt_tcpstore") for name in communicates) == (rank == 0)
        assert set(map(frozenset, communicates.values())) == {frozenset({cpu})}


@pytest.mark.parametrize(
    ("seconds", "native", "expected"),
    [
        ([(2.0, 1.0), (2.0, 1.0)], [True, True], "BF16"),
        ([(2.0, 1.0), (2.0, 1.9)], [True, True], "FP32"),
        ([(1.0, 0.5), (2.0, 1.0)], [True, True], "BF16"),
        ([(2.0, 1.0), (2.0, 1.0)], [True, False], "FP32"),
    ],
    ids=["both-faster", "slowest-not-faster", "unequal-ranks", "one-rank-lacks-it"],
)
def test_precision_is_one_decision(
    seconds: list[tuple[float, float]], native: list[bool], expected: str
) -> None:
    """All ranks come to the same precision, and the slowest rank's times decide."""
    ended = run_ranks(scenarios.agree_precision, seconds, world_size=2, native=native)
    assert succeeded(ended) == [expected, expected]


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
