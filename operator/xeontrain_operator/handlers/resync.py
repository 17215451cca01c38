"""The periodic resync: one paged LIST a kind makes the cache whole again, whatever a watch has missed."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from xeontrain_operator import constants
from xeontrain_operator.cache import Cache, Key, job_key_of, key_of
from xeontrain_operator.kube import errors, kinds
from xeontrain_operator.kube.client import KubeClient
from xeontrain_operator.kube.kinds import Kind, Object
from xeontrain_operator.metrics import Metrics

SELECTOR: Final = f"{constants.LABEL_MANAGED_BY}={constants.MANAGED_BY}"
_RETRY_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


class Resync:
    """Keeps the cache equal to the cluster and puts every living job into the queue."""

    def __init__(
        self,
        client: KubeClient,
        *,
        cache: Cache,
        metrics: Metrics,
        namespaces: Sequence[str],
        enqueue: Callable[[Key], None],
    ) -> None:
        self._client = client
        self._cache = cache
        self._metrics = metrics
        self._namespaces = tuple(namespaces)
        self._enqueue = enqueue
        self._done_at: float | None = None

    def age_seconds(self) -> float:
        """Since the last full resync; infinite before the first."""
        return float("inf") if self._done_at is None else time.monotonic() - self._done_at

    async def run_until_done(self) -> None:
        """One resync, tried again until it succeeds."""
        while not await self._try():
            await asyncio.sleep(_RETRY_SECONDS)

    async def repeat(self, interval_seconds: float) -> None:
        """Resync for ever, each interval up to a tenth shorter: operators do not list in step."""
        while True:
            await asyncio.sleep(interval_seconds * random.uniform(0.9, 1.0))
            await self.run_until_done()

    async def run(self) -> None:
        """One resync. Raises KubeError; the cache is then as good as it was."""
        first = self._done_at is None
        for namespace in self._namespaces or (None,):
            await self._list(kinds.JOB, namespace, first=first)
            for kind in kinds.CHILDREN:
                await self._list(kind, namespace, first=first)
        self._done_at = time.monotonic()
        self._metrics.resynced(time.time())
        for job in self._cache.jobs.values():
            self._enqueue(key_of(job))

    async def _try(self) -> bool:
        try:
            await self.run()
        except errors.KubeError as error:
            _log.warning("resync failed, again in %d s: %s", _RETRY_SECONDS, error.message)
            return False
        return True

    async def _list(self, kind: Kind, namespace: str | None, *, first: bool) -> None:
        listed, snapshot = await self._slim_list(kind, namespace)
        if kind is kinds.JOB:
            changed = self._cache.replace_jobs(listed, snapshot=snapshot, namespace=namespace)
        else:
            changed = self._cache.replace_children(kind.kind, listed, snapshot=snapshot, namespace=namespace)
        if not first:
            self._metrics.count_corrections(kind.kind, len(changed))
        for key in _concerned(kind, changed):
            self._enqueue(key)

    async def _slim_list(self, kind: Kind, namespace: str | None) -> tuple[list[Object], str]:
        """All objects of the kind, made slim page by page, and the moment that they show."""
        table = self._cache.jobs if kind is kinds.JOB else self._cache.children[kind.kind]
        selector = "" if kind is kinds.JOB else SELECTOR
        listed: list[Object] = []
        snapshot = ""
        async for page in self._client.pages(kind, namespace=namespace, label_selector=selector):
            listed += [table.slim(item) for item in page.items]
            snapshot = page.resource_version
        return listed, snapshot


def _concerned(kind: Kind, changed: Iterable[Object]) -> set[Key]:
    """The jobs that a change is news for; one that is gone included, so that it is forgotten."""
    keys = (key_of(body) if kind is kinds.JOB else job_key_of(body) for body in changed)
    return {key for key in keys if key is not None}
