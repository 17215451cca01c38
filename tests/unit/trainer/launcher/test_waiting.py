"""Waiting with a limit never loses a cancellation, and leaves nothing running."""

from __future__ import annotations

import asyncio

import pytest
from xeontrain_trainer.launcher.tasks import Tasks
from xeontrain_trainer.launcher.waiting import event_within, within


async def say(word: str, *, after: float = 0.0) -> str:
    """The word, after a while."""
    await asyncio.sleep(after)
    return word


async def fail() -> None:
    """Raises."""
    raise ValueError("no")


async def test_a_result_in_time_is_given() -> None:
    """Or the error."""
    assert await within(5, say("yes")) == "yes"
    with pytest.raises(ValueError, match="no"):
        await within(5, fail())


async def test_work_that_takes_too_long_is_ended() -> None:
    """Before the time-out is told."""
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    with pytest.raises(asyncio.TimeoutError):
        await within(0.01, work())
    assert ended.is_set()


async def test_a_cancellation_in_the_moment_of_the_result_is_not_lost() -> None:
    """asyncio.wait_for of Python 3.9 to 3.11 gives the result instead."""
    event = asyncio.Event()
    waiting = asyncio.ensure_future(event_within(60, event))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    event.set()
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


@pytest.mark.parametrize("seconds", [0.0, -1.0, 0.01])
async def test_an_event_that_does_not_come(seconds: float) -> None:
    """False, and at once where no time is left."""
    assert await event_within(seconds, asyncio.Event()) is False


async def test_a_task_that_fails_is_noticed() -> None:
    """A part that is dead must not be missed in silence."""
    tasks = Tasks()
    tasks.spawn(say("fine"))
    tasks.spawn(fail())
    with pytest.raises(ValueError, match="no"):
        await tasks.failed
    await tasks.close()


async def test_closing_ends_what_still_runs() -> None:
    """Cancelled tasks are no failures."""
    tasks = Tasks()
    running = tasks.spawn(say("late", after=60))
    await tasks.close()
    assert running.cancelled()
    assert tasks.failed.cancelled()
