"""Events about a job."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from xeontrain_operator.reconcile.decision import JobEvent
from xeontrain_operator.reconcile.events import MAX_MESSAGE, event_manifest

JOB = {"metadata": {"name": "mail", "namespace": "team", "uid": "u", "resourceVersion": "5"}}
NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def test_event_names_the_job_and_the_moment() -> None:
    """`kubectl describe` finds it by UID and shows when and what."""
    made = event_manifest(JobEvent(reason="Started", message="go", type="Normal"), job=JOB, now=NOW)
    assert made["involvedObject"]["uid"] == "u"
    assert (made["reason"], made["message"], made["type"]) == ("Started", "go", "Normal")
    assert made["firstTimestamp"] == made["lastTimestamp"] == "2026-11-30T12:00:00Z"


def test_two_events_never_share_a_name() -> None:
    """Each is a report of its own; equal ones do not collide."""
    event = JobEvent(reason="Started", message="go")
    names = {event_manifest(event, job=JOB, now=NOW)["metadata"]["name"] for _ in range(50)}
    assert len(names) == 50


@pytest.mark.parametrize("letter", ["x", "ü", "€", "🙂"])
def test_long_message_is_cut_between_letters(letter: str) -> None:
    """The API server counts bytes, and takes no half a letter."""
    message = event_manifest(JobEvent(reason="Long", message=letter * 2000), job=JOB, now=NOW)["message"]
    assert MAX_MESSAGE - 4 <= len(message.encode()) <= MAX_MESSAGE
    assert set(message) == {letter, "."}
