"""The gang's invariants under every fault, in seeded histories; and what that proof is worth."""

from __future__ import annotations

import pytest

from tests.unit.trainer.gang.mutations import MUTATIONS, Mutation
from tests.unit.trainer.gang.simulate import LARGE, run_histories, run_history
from tests.unit.trainer.gang.world import Violation

HISTORIES = 1000
GROUPS = 10


@pytest.mark.parametrize("group", range(GROUPS))
def test_small_gangs_hold_their_invariants(group: int) -> None:
    """Never two rounds live in one worker, never a verdict that changes or lacks a worker of its round, an
    end once faults stop."""
    numbers = range(group, HISTORIES, GROUPS)
    assert sum(run_histories(numbers).values()) == len(numbers)


@pytest.mark.parametrize("number", range(2))
def test_large_gangs_hold_their_invariants(number: int) -> None:
    """The same with 512 workers."""
    assert run_history(number, workers=LARGE) in ("Succeeded", "Failed")


def test_a_history_is_a_function_of_its_number() -> None:
    """What is found can be run again."""
    assert [run_history(n) for n in range(20)] == [run_history(n) for n in range(20)]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: str(mutation.rule.__name__))
def test_a_broken_rule_is_found(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation notices when any one rule of the gang is taken out, in the history that is known to show
    it."""
    mutation.rule(monkeypatch)
    with pytest.raises(Violation, match=mutation.shows):
        run_histories((mutation.history, *range(HISTORIES)))
