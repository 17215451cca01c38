"""The operator's working parts, made at start-up and taken apart at the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from wsgiref.simple_server import WSGIServer

from xeontrain_operator.cache import Cache, Key, job_key_of, key_of
from xeontrain_operator.handlers.resync import Resync
from xeontrain_operator.kube import config, kinds
from xeontrain_operator.kube.aio import AioKubeClient
from xeontrain_operator.kube.kinds import Object
from xeontrain_operator.launcher_client import LauncherClient
from xeontrain_operator.metrics import Metrics
from xeontrain_operator.reconcile.decide import decide
from xeontrain_operator.reconcile.loop import Reconciler
from xeontrain_operator.settings import Settings, load_settings

_CRD_INTERVAL_SECONDS: Final = 1.0
_STOP_GRACE_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


class Runtime:
    """Cache, client, queues and the tasks around them."""

    def __init__(self, settings: Settings, *, configuration: config.Configuration) -> None:
        self.settings = settings
        self.configuration = configuration
        self.cache = Cache()
        self.metrics = Metrics()
        self.client = AioKubeClient(configuration, on_call=self.metrics.count_call)
        self.launchers = LauncherClient(
            timeout_seconds=settings.polling.timeout_seconds, max_bytes=settings.polling.max_bytes
        )
        self.reconciler = Reconciler(
            self.client,
            cache=self.cache,
            launchers=self.launchers,
            decide=decide,
            settings=settings,
            metrics=self.metrics,
        )
        self.resync = Resync(
            self.client,
            cache=self.cache,
            metrics=self.metrics,
            namespaces=settings.watch_namespaces,
            enqueue=self.reconciler.queue.add,
        )
        self._resync_task: asyncio.Task[None] | None = None
        self._metrics_server: WSGIServer | None = None

    async def start(self) -> None:
        """Fill the cache, then start to work: a decision is never made on half a picture."""
        self._metrics_server = self.metrics.serve(self.settings.metrics_port)
        self.metrics.watch_jobs(self.cache.phases)
        queue = self.reconciler.queue
        self.metrics.watch_queue("reconcile", depth=queue.depth, oldest=queue.oldest_seconds)
        polls = self.reconciler.polls
        self.metrics.watch_queue("poll", depth=polls.depth, oldest=polls.oldest_seconds)
        await self._wait_for_definition()
        await self.resync.run_until_done()
        await self.reconciler.start()
        self._resync_task = asyncio.create_task(
            self.resync.repeat(self.settings.resync_seconds), name="resync"
        )

    def is_running(self) -> bool:
        """Whether everything that was started still lives."""
        resyncing = self._resync_task is not None and not self._resync_task.done()
        return resyncing and self.reconciler.is_running()

    async def stop(self) -> None:
        """End what is in work, then close all connections. Safe to call after a start that failed."""
        if self._resync_task is not None:
            self._resync_task.cancel()
            await asyncio.gather(self._resync_task, return_exceptions=True)
        await self.reconciler.stop(grace_seconds=_STOP_GRACE_SECONDS)
        await self.launchers.close()
        await self.client.close()
        if self._metrics_server is not None:
            await asyncio.to_thread(self._metrics_server.shutdown)
            self._metrics_server.server_close()

    def job_event(self, event_type: str | None, body: Object) -> None:
        """A watch has brought a job."""
        self.metrics.count_event(kinds.JOB.kind)
        key = key_of(body)
        if event_type == "DELETED":
            self.cache.drop_job(body)
            if self.cache.jobs.get(key) is None:
                self.reconciler.forget(key)
        elif self.cache.put_job(body):
            self.reconciler.queue.add(key)

    def child_event(self, event_type: str | None, body: Object) -> None:
        """A watch has brought a child of some job."""
        self.metrics.count_event(body["kind"])
        gone = event_type == "DELETED"
        news = self.cache.drop_child(body) if gone else self.cache.put_child(body)
        key = job_key_of(body)
        if news and key is not None and self._concerns(key):
            self.reconciler.queue.add(key)

    def _concerns(self, key: Key) -> bool:
        """Whether a job of that name lives: children of others go by garbage collection."""
        return self.cache.jobs.get(key) is not None

    async def _wait_for_definition(self) -> None:
        """The CRD may be installed after the operator, or in the same breath."""
        said = False
        while not await self.client.served(kinds.JOB):
            if not said:
                _log.warning("the cluster does not serve XeonTrainJob yet: waiting for its definition (CRD)")
                said = True
            await asyncio.sleep(_CRD_INTERVAL_SECONDS)


async def make_runtime(environ: Mapping[str, str]) -> Runtime:
    """The runtime for this process's environment.

    Raises SettingsError or ConfigurationError, in words for whoever installs the operator.
    """
    kubeconfig = environ.get("KUBECONFIG", "")
    settings = load_settings(environ)
    configuration = await config.load(
        in_cluster=config.SERVICE_HOST_ENV_NAME in environ and not kubeconfig,
        kubeconfig=Path(kubeconfig) if kubeconfig else None,
    )
    return Runtime(settings, configuration=configuration)
