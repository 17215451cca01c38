"""`/healthz`: alive means that work gets done, not that a web server answers."""

from __future__ import annotations

from typing import Any, Final

import kopf

from xeontrain_operator.handlers.runtime import Runtime

# A reconcile is cut off after 120 s and retried, so a key that is older than this is stuck.
MAX_QUEUE_AGE_SECONDS: Final = 300.0
MAX_MISSED_RESYNCS: Final = 3.0


@kopf.on.probe(id="workers", errors=kopf.ErrorsMode.PERMANENT)
async def workers(memo: kopf.Memo, **_: Any) -> str:
    """All workers live. Raises PermanentError, which kopf answers at once with HTTP 500."""
    if not _runtime(memo).is_running():
        raise kopf.PermanentError("a worker of the queue has ended")
    return "running"


@kopf.on.probe(id="queueAgeSeconds", errors=kopf.ErrorsMode.PERMANENT)
async def queue_age(memo: kopf.Memo, **_: Any) -> float:
    """No key waits for a worker, or is in work, for too long."""
    age = _runtime(memo).reconciler.queue.oldest_seconds()
    if age > MAX_QUEUE_AGE_SECONDS:
        raise kopf.PermanentError(f"a job has waited {age:.0f} s to be reconciled")
    return round(age, 1)


@kopf.on.probe(id="resyncAgeSeconds", errors=kopf.ErrorsMode.PERMANENT)
async def resync_age(memo: kopf.Memo, **_: Any) -> float:
    """The API server has been read from in full not too long ago."""
    runtime = _runtime(memo)
    age, limit = runtime.resync.age_seconds(), MAX_MISSED_RESYNCS * runtime.settings.resync_seconds
    if age > limit:
        raise kopf.PermanentError(f"no full resync for {age:.0f} s (limit {limit:.0f} s)")
    return round(age, 1)


def _runtime(memo: kopf.Memo) -> Runtime:
    runtime: Runtime = memo.runtime
    return runtime
