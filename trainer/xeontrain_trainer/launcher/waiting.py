"""Waiting with a limit. `asyncio.wait_for` loses a cancellation that comes in the same moment as the result
(before Python 3.12), and a loop that is cancelled but goes on would hold up the launcher's end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. Raises asyncio.TimeoutError where it takes longer; then, and on cancellation, the
    work is cancelled and has let go of everything before this returns."""
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=max(0.0, seconds))
    except asyncio.CancelledError:
        await _end(task)
        raise
    if not done:
        await _end(task)
        raise asyncio.TimeoutError
    return task.result()


async def event_within(seconds: float, event: asyncio.Event) -> bool:
    """Whether the event came within the time; for ever where that is infinite."""
    if seconds == float("inf"):
        return await event.wait()
    try:
        return await within(seconds, event.wait())
    except asyncio.TimeoutError:
        return False


async def _end(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # Looked at, so that nobody complains of it.
