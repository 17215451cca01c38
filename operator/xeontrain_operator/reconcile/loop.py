"""The one reconcile: observe, decide, act, write the status once, tell what happened.

Level-triggered and idempotent: it may be run at any moment, any number of times, and be cut off anywhere.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, Protocol

from xeontrain_operator.cache import Cache, Key, key_of, version_of
from xeontrain_operator.kube import errors, kinds
from xeontrain_operator.kube.client import KubeClient
from xeontrain_operator.launcher_client import LauncherClient, LauncherError
from xeontrain_operator.metrics import Metrics
from xeontrain_operator.reconcile.decision import Decision, JobEvent
from xeontrain_operator.reconcile.events import event_manifest
from xeontrain_operator.reconcile.execute import Executor
from xeontrain_operator.reconcile.memory import JobMemory
from xeontrain_operator.reconcile.observe import Reader, address_of, worker_zero_address
from xeontrain_operator.reconcile.observed import (
    Document,
    LauncherReport,
    Observed,
    WorkerAnswer,
    is_terminating,
)
from xeontrain_operator.reconcile.pods import by_worker, pod_uid
from xeontrain_operator.settings import Settings
from xeontrain_operator.workqueue import RetryLater, WorkQueue

# Answers to questions, a fresh copy of the job, a refusal: each is worth one more look, never an endless one.
_MAX_PASSES: Final = 6
_EVENTS_INTERVAL_SECONDS: Final = 5.0
_POLL_WORKERS: Final = 32
_REDO_SECONDS: Final = 0.5

_log = logging.getLogger(__name__)


class Decide(Protocol):
    """The pure core: `reconcile.decide.decide`."""

    def __call__(self, observed: Observed, *, settings: Settings, now: datetime) -> Decision: ...


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Reconciler:
    """Owns the two queues: jobs to reconcile, and launchers to ask.

    They are apart so that pods which do not answer hold up no reconcile.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        cache: Cache,
        launchers: LauncherClient,
        decide: Decide,
        settings: Settings,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._client = client
        self._cache = cache
        self._launchers = launchers
        self._decide = decide
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._now = now
        self._reader = Reader(client, cache)
        self._executor = Executor(client, cache, launchers, clock=clock)
        self._memories: dict[Key, JobMemory] = {}
        self.queue: WorkQueue[Key] = WorkQueue(
            self.reconcile, name="reconcile", num_workers=settings.concurrent_reconciles, clock=clock
        )
        self.polls: WorkQueue[Key] = WorkQueue(self.poll, name="poll", num_workers=_POLL_WORKERS, clock=clock)

    def forget(self, key: Key) -> None:
        """The job of that key is gone."""
        self._memories.pop(key, None)
        self.queue.forget(key)
        self.polls.forget(key)

    async def reconcile(self, key: Key) -> float | None:
        """Bring the job nearer to what it says; returns the seconds after which to look again.

        Raises RetryLater for faults that pass.
        """
        with self._metrics.reconcile():
            try:
                return await self._reconcile(key)
            except errors.Transient as error:
                raise RetryLater(error.message, after_seconds=error.retry_after_seconds) from error
            except errors.KubeError as error:
                # The cause may be a missing right or an outdated CRD: worth a line for the platform team.
                raise RetryLater(
                    f"{error.reason or error.status}: {error.message}", after_seconds=5.0
                ) from error

    async def _reconcile(self, key: Key) -> float | None:
        job = self._cache.jobs.get(key) or await self._fetch(key)
        if job is None or is_terminating(job):
            # Its children go by garbage collection; to make one again would only get in the way.
            return None
        memory = self._memory(key, job)
        looked: set[str] = set()
        for _ in range(_MAX_PASSES):
            observed = await self._reader.observe(job, memory, now=self._clock())
            decision = self._decide(observed, settings=self._settings, now=self._now())
            if await self._ask(decision, observed, memory, looked):
                continue
            if decision.actions and "job" not in looked:
                # The copy may be behind: nothing is built or destroyed on its word alone.
                looked.add("job")
                job = await self._fetch(key)
                if job is None or is_terminating(job):
                    return None
                memory = self._memory(key, job)
                continue
            if not await self._carry_out(decision, observed, memory):
                return self._again_seconds(decision, memory)
            job = self._cache.jobs.get(key) or job
        return _REDO_SECONDS

    async def _carry_out(self, decision: Decision, observed: Observed, memory: JobMemory) -> bool:
        """Actions, status, events in the decision's order; returns whether to decide anew."""
        job = observed.job
        if decision.status_first:
            job = await self._record(job, decision)
        if await self._executor.run(decision.actions, observed=observed, memory=memory):
            return True
        if not decision.status_first:
            job = await self._record(job, decision)
        self._schedule_poll(key_of(job), decision, memory)
        if decision.finished:
            self._cache.finish(job)
            self._memories.pop(key_of(job), None)
        return False

    async def _record(self, job: Document, decision: Decision) -> Document:
        """Status, then events if there was anything to write; the job as it is afterwards."""
        job, written = await self._write_status(job, decision)
        if written:
            await self._tell(job, decision.events)
        return job

    async def _write_status(self, job: Document, decision: Decision) -> tuple[Document, bool]:
        """The job as it is afterwards, and whether anything was written.

        Raises RetryLater where somebody else has changed the job since: it is read again and decided anew.
        """
        if decision.status == (job.get("status") or {}):
            return job, False
        try:
            written = await self._client.replace_status(dict(job), status=decision.status)
        except errors.Conflict as error:
            await self._fetch(key_of(job))
            raise RetryLater(f"the job changed meanwhile: {error.message}", after_seconds=0.0) from error
        self._cache.put_job(written)
        # A field that the server's schema does not know is dropped by it: then nothing has happened.
        return written, version_of(written) != version_of(job)

    async def _tell(self, job: Document, events: tuple[JobEvent, ...]) -> None:
        """Best effort: the status is the record, events are the story."""
        for event in events:
            try:
                await self._client.create(event_manifest(event, job=job, now=self._now()))
            except errors.KubeError as error:
                _log.warning(
                    "event %s of %s is lost: %s", event.reason, job["metadata"]["name"], error.message
                )

    async def _ask(self, decision: Decision, observed: Observed, memory: JobMemory, looked: set[str]) -> bool:
        """Put the decision's questions to the API server; returns whether there are answers to decide on."""
        answered = False
        if decision.ask_events and "events" not in looked and self._events_due(memory):
            looked.add("events")
            memory.claims = await self._reader.claims(observed)
            memory.events = await self._reader.warnings(observed)
            memory.events_at = self._clock()
            answered = True
        if not decision.ask_events:
            memory.events, memory.events_at = (), None
        if "rivals" not in looked:
            # What was read for this decision stands until it is carried out.
            memory.rivals = self._reader.rivals(observed) if decision.ask_rivals else None
            answered = answered or decision.ask_rivals
            looked.update({"rivals"} if decision.ask_rivals else ())
        if not decision.ask_nodes:
            memory.lost_nodes = frozenset()
        elif "nodes" not in looked:
            looked.add("nodes")
            lost = await self._reader.lost_nodes(decision.ask_nodes)
            answered = answered or lost != memory.lost_nodes
            memory.lost_nodes = lost
        return answered

    def _events_due(self, memory: JobMemory) -> bool:
        return memory.events_at is None or self._clock() - memory.events_at >= _EVENTS_INTERVAL_SECONDS

    def _again_seconds(self, decision: Decision, memory: JobMemory) -> float | None:
        waits = [decision.requeue_seconds, memory.next_attempt_seconds(now=self._clock())]
        return min((wait for wait in waits if wait is not None), default=None)

    def _memory(self, key: Key, job: Document) -> JobMemory:
        memory = self._memories.get(key)
        if memory is None or memory.uid != job["metadata"]["uid"]:
            memory = self._memories[key] = JobMemory(uid=job["metadata"]["uid"])
        return memory

    async def _fetch(self, key: Key) -> Document | None:
        """The job as the API server has it at this moment; None and all forgotten where it is gone."""
        try:
            job = await self._client.get(kinds.JOB, namespace=key.namespace, name=key.name)
        except errors.NotFound:
            known = self._cache.jobs.get(key)
            if known is not None:
                self._cache.drop_job(known)
            self.forget(key)
            return None
        self._cache.put_job(job)
        return job

    def _schedule_poll(self, key: Key, decision: Decision, memory: JobMemory) -> None:
        memory.ask_launcher, memory.ask_workers = decision.ask_launcher, decision.ask_workers
        if not decision.ask_launcher:
            memory.launcher_error = None
            return
        since = None if memory.asked_at is None else self._clock() - memory.asked_at
        wait = 0.0 if since is None else max(0.0, self._poll_interval_seconds() - since)
        self.polls.add(key, after_seconds=wait)

    def _poll_interval_seconds(self) -> float:
        asked = sum(memory.ask_launcher for memory in self._memories.values())
        return self._settings.polling.interval_seconds(running_jobs=asked)

    async def poll(self, key: Key) -> float | None:
        """Ask worker 0 of a job once, and before it those workers that it misses, so that its answer is the
        newest; what they say is for the next reconcile to judge."""
        memory = self._memories.get(key)
        if memory is None or not memory.ask_launcher:
            return None
        pods = self._cache.pods(memory.uid)
        address = worker_zero_address(pods)
        if address is None:
            return self._poll_interval_seconds()
        before = memory.launcher, memory.launcher_error, memory.answers
        memory.answers = await self._ask_workers(memory, by_worker(pods))
        memory.asked_at = self._clock()
        try:
            asked_at = self._now()
            status = await self._question(address, worker=0, uid=memory.uid)
            memory.launcher = LauncherReport(status=status, asked_at=asked_at)
            memory.launcher_error = None
            self._metrics.count_poll("answered")
        except LauncherError as error:
            memory.launcher_error = str(error)
            self._metrics.count_poll(error.cause)
        if (memory.launcher, memory.launcher_error, memory.answers) != before:
            self.queue.add(key)
        return self._poll_interval_seconds()

    async def _question(self, address: tuple[str, str], *, worker: int, uid: str) -> Document:
        pod_ip, pod_uid = address
        status = await self._launchers.status(pod_ip)
        if (status["jobUid"], status["podUid"], status["worker"]) != (uid, pod_uid, worker):
            raise LauncherError(f"another pod answered at worker {worker}'s address", cause="stranger")
        return status

    async def _ask_workers(self, memory: JobMemory, pods: Mapping[int, Document]) -> dict[int, WorkerAnswer]:
        asked = [(worker, pods[worker]) for worker in memory.ask_workers if worker in pods]
        answers = await asyncio.gather(*(self._ask_worker(w, pod, memory.uid) for w, pod in asked))
        return {answer.worker: answer for answer in answers if answer is not None}

    async def _ask_worker(self, worker: int, pod: Document, uid: str) -> WorkerAnswer | None:
        address = address_of(pod)
        if address is None:
            return None
        asked_at, of_pod = self._now(), pod_uid(pod)
        try:
            status = await self._question((address, of_pod), worker=worker, uid=uid)
        except LauncherError as error:
            return WorkerAnswer(worker=worker, pod_uid=of_pod, asked_at=asked_at, error=str(error))
        return WorkerAnswer(worker=worker, pod_uid=of_pod, asked_at=asked_at, status=status)

    async def start(self) -> None:
        """Start the workers of both queues."""
        self.queue.start()
        self.polls.start()

    def is_running(self) -> bool:
        """Whether all workers live."""
        return self.queue.is_running() and self.polls.is_running()

    async def stop(self, *, grace_seconds: float) -> None:
        """Finish what is in work, for so long; start nothing new."""
        await asyncio.gather(self.queue.stop(grace_seconds=grace_seconds), self.polls.stop(grace_seconds=0.0))
