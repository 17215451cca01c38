"""Conditions follow Kubernetes' conventions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from xeontrain_operator.api import conditions as c
from xeontrain_operator.api.v1alpha1 import Condition

EARLY = datetime(2026, 1, 1, tzinfo=UTC)
LATE = EARLY + timedelta(minutes=5)


def _set(before: tuple[Condition, ...] = (), **changes: Any) -> tuple[Condition, ...]:
    values = {
        "type": c.RUNNING,
        "status": "True",
        "reason": c.TRAINING,
        "message": "Training.",
        "now": EARLY,
        **changes,
    }
    return c.set_condition(before, **values)


def test_new_condition_is_appended() -> None:
    """Conditions keep the order in which they first appeared."""
    found = _set(_set(), type=c.SUCCEEDED)
    assert [condition.type for condition in found] == [c.RUNNING, c.SUCCEEDED]
    assert found[0].last_transition_time == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("changes", "transition"),
    [
        ({"message": "Still."}, "2026-01-01T00:00:00Z"),
        ({"reason": c.RESTARTING}, "2026-01-01T00:00:00Z"),
        ({"status": "False"}, "2026-01-01T00:05:00Z"),
    ],
    ids=["message", "reason", "status"],
)
def test_transition_time_follows_the_status_alone(changes: dict[str, Any], transition: str) -> None:
    """A new message or reason is no transition."""
    (condition,) = _set(_set(), now=LATE, **changes)
    assert condition.last_transition_time == transition
    assert all(getattr(condition, name) == value for name, value in changes.items())


def test_nothing_else_is_touched() -> None:
    """Setting one condition leaves the others as they are."""
    before = _set(_set(), type=c.CPU_PINNED)
    after = _set(before, type=c.CPU_PINNED, status="False", now=LATE)
    assert after[0] is before[0]


def test_long_messages_are_cut() -> None:
    """A message never makes the status too large to be stored."""
    (condition,) = _set(message="x" * 10_000)
    assert len(condition.message) == c.MESSAGE_LIMIT


def test_look_ups() -> None:
    """Absent counts as not true."""
    found = _set()
    assert c.is_true(found, c.RUNNING)
    assert not c.is_true(found, c.FAILED)
    assert c.find_condition(found, c.FAILED) is None


def test_timestamp_is_utc() -> None:
    """Times of other zones are converted."""
    elsewhere = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert c.timestamp(elsewhere) == "2026-01-01T00:00:00Z"
