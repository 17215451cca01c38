"""What a start of the launcher finds in the pod's folder and in storage, looked for off the event loop: a
storage that is away must not make the launcher deaf."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

from .results import JobDir, StateDir
from .settings import Settings
from .trouble import (
    GIVE_UP_SECONDS,
    NOT_WRITABLE,
    GivenUpError,
    Trouble,
    explain_storage,
    trouble,
)

RETRY_SECONDS = 2.0
# A look takes milliseconds; one that takes this long is worth a word.
SLOW_SECONDS = 5.0


@dataclass(frozen=True)
class Found:
    """`start`: this launcher's start number in the pod. `round`: the highest in the emptyDir. `highest`:
    that, or the one in storage where it is higher. `result`: the job's result in storage."""

    start: int
    round: int
    highest: int
    result: Optional[dict[str, Any]]


def look(settings: Settings, *, state: StateDir, job_dir: JobDir, parked: bool) -> Found:
    """Reads and writes: for a thread of its own. Raises OSError where the pod's folder cannot be written.

    `parked`: it has its verdict, or is to have none, and asks nothing of storage.
    """
    start, round_ = state.next_start(parked=parked), state.read_round()
    if settings.worker != 0 or parked:
        return Found(start=start, round=round_, highest=round_, result=None)
    result = job_dir.read_result(job_uid=settings.job_uid)
    return Found(start=start, round=round_, highest=max(round_, job_dir.read_round()), result=result)


async def find(
    settings: Settings,
    *,
    state: StateDir,
    job_dir: JobDir,
    parked: bool,
    tell: Callable[[Trouble], None],
) -> Found:
    """The same, tried again for GIVE_UP_SECONDS; `tell` is told of what stands in the way. Raises
    GivenUpError."""
    known: Optional[Trouble] = None
    looking: Optional[asyncio.Future[Found]] = None
    until = time.monotonic() + GIVE_UP_SECONDS
    while True:
        if looking is None:
            work = asyncio.to_thread(look, settings, state=state, job_dir=job_dir, parked=parked)
            looking = asyncio.ensure_future(work)
        await asyncio.wait({looking}, timeout=SLOW_SECONDS)
        reason, message = NOT_WRITABLE, _silence(settings)
        if looking.done():
            try:
                return looking.result()
            except OSError as error:
                reason, message = explain_storage(error, state_dir=state.path, job_dir=job_dir.path)
                looking = None
        known = trouble(reason, message, before=known)
        tell(known)
        if time.monotonic() >= until:
            raise GivenUpError(known)
        await asyncio.sleep(RETRY_SECONDS)


def _silence(settings: Settings) -> str:
    if settings.worker == 0 and settings.job_dir is not None:
        return f"spec.storage: {settings.job_dir} does not answer. Ask who runs the storage"
    return f"{settings.state_dir} does not answer: this is the pod's own folder on its node"
