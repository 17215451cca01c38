"""What docs/plan.md promises holds for any machine and any request that can be met."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xeontrain_trainer.machine import Machine
from xeontrain_trainer.plan import PlanError, PlanRequest, largest_ranks, make_plan

from tests.unit.trainer.machines import Pair, machines, pairs
from tests.unit.trainer.plan.check import run
from tests.unit.trainer.plan.invariants import check, random_request


@given(pairs, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_any_plan(pair: Pair, rng: random.Random) -> None:
    """Found by hypothesis, which names the smallest machine that breaks a promise."""
    machine = pair.granted
    check(machine, random_request(rng, machine))


def test_many_machines() -> None:
    """The first of those that `make plan-check` goes through, and all that they must cover."""
    seen = run(machines=500, seed=0)
    assert seen["machines"] == 500
    assert min(seen.values()) >= 20, seen


@given(machines)
@settings(max_examples=50, deadline=None)
def test_more_ranks_than_cores_is_a_clear_error(machine: Machine) -> None:
    most = largest_ranks(machine)
    make_plan(machine, PlanRequest(ranks=most))
    with pytest.raises(PlanError, match=r"spec\.ranksPerWorker to at most \d+"):
        make_plan(machine, PlanRequest(ranks=most + 1))
