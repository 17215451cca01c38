"""`/healthz` fails for what only a new process mends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import kopf
import pytest
from xeontrain_operator.handlers import probes
from xeontrain_operator.settings import Settings


def _memo(*, running: bool = True, queue_age: float = 0.0, resync_age: float = 1.0) -> kopf.Memo:
    runtime = SimpleNamespace(
        is_running=lambda: running,
        reconciler=SimpleNamespace(queue=SimpleNamespace(oldest_seconds=lambda: queue_age)),
        resync=SimpleNamespace(age_seconds=lambda: resync_age),
        settings=Settings(resync_seconds=100.0),
    )
    return kopf.Memo(runtime=runtime)


@pytest.mark.parametrize("probe", [probes.workers, probes.queue_age, probes.resync_age])
async def test_healthy(probe: Any) -> None:
    """Nothing is raised while work gets done."""
    assert await probe(memo=_memo()) is not None


@pytest.mark.parametrize(
    ("probe", "memo", "said"),
    [
        pytest.param(probes.workers, _memo(running=False), "worker", id="a worker has ended"),
        pytest.param(probes.queue_age, _memo(queue_age=301.0), "301 s", id="a key is stuck"),
        pytest.param(probes.resync_age, _memo(resync_age=301.0), "301 s", id="deaf"),
        pytest.param(probes.resync_age, _memo(resync_age=float("inf")), "inf", id="never synchronised"),
    ],
)
async def test_unhealthy(probe: Any, memo: kopf.Memo, said: str) -> None:
    """PermanentError: any other exception would be retried by kopf inside the request."""
    with pytest.raises(kopf.PermanentError, match=said):
        await probe(memo=memo)
