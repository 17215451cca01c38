"""Background tasks whose failure is noticed: a launcher with a dead part is worse than one that starts
again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

CLOSE_SECONDS = 2.0


def cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """Ends what is left in a loop that is to be closed: a task that is dropped while it waits complains."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        done, _ = loop.run_until_complete(asyncio.wait(left, timeout=CLOSE_SECONDS))
        for task in done:
            if not task.cancelled():
                task.exception()  # Looked at, so that nobody complains of it.


class Tasks:
    """Keeps tasks alive while they run. The first that raises ends `failed` with its exception: a bug."""

    def __init__(self) -> None:
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs `work` beside everything else."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failed.done():
            self.failed.set_exception(error)

    async def close(self) -> None:
        """Cancels what still runs. What does not end within CLOSE_SECONDS is left to the end of the
        process."""
        self.failed.cancel()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=CLOSE_SECONDS)
