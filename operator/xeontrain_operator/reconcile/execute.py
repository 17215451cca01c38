"""Acting: one effect after another, each safe to repeat and none on an object that is not the one meant."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

from xeontrain_operator import constants
from xeontrain_operator.api.v1alpha1 import Metadata
from xeontrain_operator.builders.labels import child_metadata
from xeontrain_operator.cache import Cache, Key, is_watched
from xeontrain_operator.kube import errors, kinds
from xeontrain_operator.kube.client import KubeClient
from xeontrain_operator.launcher_client import LauncherClient, LauncherError
from xeontrain_operator.reconcile.decision import (
    Action,
    Create,
    Delete,
    DeletePod,
    KeepLog,
    PatchTemplate,
    Scale,
)
from xeontrain_operator.reconcile.memory import JobMemory, Refusal
from xeontrain_operator.reconcile.observed import ApplyError, Document, Observed
from xeontrain_operator.reconcile.pods import by_worker

LOG_TAIL_BYTES: Final = 64 * 1024
_KEEP_LOG_SECONDS: Final = 5.0
# The rest is for writing what was had.
_TAIL_SECONDS: Final = 4.0
_FIRST_RETRY_SECONDS: Final = 30.0
_MAX_RETRY_SECONDS: Final = 300.0

Verb = Literal["create", "change", "delete"]

_log = logging.getLogger(__name__)


class Executor:
    """Carries out the actions of a decision."""

    def __init__(
        self, client: KubeClient, cache: Cache, launchers: LauncherClient, *, clock: Callable[[], float]
    ) -> None:
        self._client = client
        self._cache = cache
        self._launchers = launchers
        self._clock = clock

    async def run(self, actions: tuple[Action, ...], *, observed: Observed, memory: JobMemory) -> bool:
        """All actions in their order.

        Returns whether the world turned out to be other than observed (a child refused, a stranger under
        its name, a change meanwhile): then the rest is left undone and the job is to be decided anew.
        Raises Transient for what may work a little later.
        """
        for action in actions:
            if await self._run(action, observed, memory):
                return True
        return False

    async def _run(self, action: Action, observed: Observed, memory: JobMemory) -> bool:
        if isinstance(action, KeepLog):
            await self._keep_log(action, observed)
            return False
        kind, verb = _kind_of(action), _verb_of(action)
        if self._is_refused((kind.kind, action.name, verb), observed, memory):
            # Its refusal is shown in a condition, and it is tried again when that has had its time.
            return False
        try:
            changed = await self._effect(action, kind, observed.job["metadata"]["namespace"], memory)
            memory.refusals.pop((kind.kind, action.name, verb), None)
            return changed
        except errors.Conflict as error:
            _log.info("%s %s changed meanwhile: %s", kind.kind, action.name, error.message)
            return True
        except (errors.Invalid, errors.Forbidden) as error:
            self._remember_refusal(kind, action.name, verb, error, observed, memory)
            return True

    def _is_refused(self, key: tuple[str, str, str], observed: Observed, memory: JobMemory) -> bool:
        known = memory.refusals.get(key)
        generation = observed.job["metadata"].get("generation", 0)
        return known is not None and known.generation == generation and self._clock() < known.until

    async def _effect(
        self,
        action: Create | Scale | PatchTemplate | Delete | DeletePod,
        kind: kinds.Kind,
        namespace: str,
        memory: JobMemory,
    ) -> bool:
        if isinstance(action, Create):
            return await self._create(action, kind, namespace, memory)
        current = await self._current(kind, namespace, action.name, action.uid)
        if current is None:
            return False
        if isinstance(action, Scale):
            await self._patch(kind, current, {"spec": {"replicas": action.replicas}})
        elif isinstance(action, PatchTemplate):
            change = {"metadata": {"annotations": action.annotations}, "spec": {"template": action.template}}
            await self._patch(kind, current, change)
        elif isinstance(action, Delete):
            await self._client.delete(
                kind, namespace=namespace, name=action.name, uid=action.uid, propagation=action.propagation
            )
        else:
            await self._delete_pod(action, namespace)
        return False

    async def _create(self, action: Create, kind: kinds.Kind, namespace: str, memory: JobMemory) -> bool:
        try:
            made = await self._client.create(action.body)
        except errors.AlreadyExists:
            return await self._look_at_existing(kind, namespace, action.name, memory)
        self._learn(made)
        return False

    async def _look_at_existing(self, kind: kinds.Kind, namespace: str, name: str, memory: JobMemory) -> bool:
        """Something bears the name already: ours that the cache has not heard of, or a stranger's."""
        try:
            existing = await self._client.get(kind, namespace=namespace, name=name)
        except errors.NotFound:
            return True
        if is_watched(existing):
            self._learn(existing)
        else:
            memory.strangers.add((kind.kind, name))
        return True

    async def _current(self, kind: kinds.Kind, namespace: str, name: str, uid: str) -> Document | None:
        """The object as it is at this moment; None where it is gone or another has taken its name."""
        try:
            current = await self._client.get(kind, namespace=namespace, name=name)
        except errors.NotFound:
            self._unlearn(kind, namespace, name, uid)
            return None
        self._learn(current)
        return current if current["metadata"]["uid"] == uid else None

    async def _patch(self, kind: kinds.Kind, current: Document, change: dict[str, Any]) -> None:
        """The resourceVersion makes the patch one of the object that was just looked at, or a Conflict."""
        metadata = current["metadata"]
        version = {"resourceVersion": metadata["resourceVersion"]}
        patch = {**change, "metadata": {**change.get("metadata", {}), **version}}
        self._learn(
            await self._client.patch(
                kind,
                namespace=metadata["namespace"],
                name=metadata["name"],
                patch=patch,
                style="strategic",
            )
        )

    async def _delete_pod(self, action: DeletePod, namespace: str) -> None:
        await self._client.delete(
            kinds.POD,
            namespace=namespace,
            name=action.name,
            uid=action.uid,
            grace_period_seconds=action.grace_seconds,
        )

    def _remember_refusal(
        self,
        kind: kinds.Kind,
        name: str,
        verb: Verb,
        error: errors.KubeError,
        observed: Observed,
        memory: JobMemory,
    ) -> None:
        before = memory.refusals.get((kind.kind, name, verb))
        attempts = 1 + (before.attempts if before else 0)
        wait = min(_MAX_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2 ** min(attempts - 1, 8))
        _log.warning("to %s %s %s is refused: %s", verb, kind.kind, name, error.message)
        memory.refusals[(kind.kind, name, verb)] = Refusal(
            error=ApplyError(
                kind=kind.kind,
                name=name,
                status_code=error.status,
                reason=error.reason,
                message=error.message,
                verb=verb,
            ),
            generation=observed.job["metadata"].get("generation", 0),
            until=self._clock() + wait,
            attempts=attempts,
        )

    def _learn(self, body: Document) -> None:
        """Take an answer of the API server into the cache, ahead of the watch."""
        if body["kind"] in self._cache.children and is_watched(body):
            self._cache.put_child(dict(body))

    def _unlearn(self, kind: kinds.Kind, namespace: str, name: str, uid: str) -> None:
        if kind.kind in self._cache.children:
            known = self._cache.child(kind.kind, Key(namespace, name))
            if known is not None and known["metadata"]["uid"] == uid:
                self._cache.drop_child(known)

    async def _keep_log(self, action: KeepLog, observed: Observed) -> None:
        """Best effort within its few seconds: a job's end never waits for its log."""
        try:
            async with asyncio.timeout(_KEEP_LOG_SECONDS):
                tails = await asyncio.gather(*(self._tail(worker, observed) for worker in action.workers))
                data = {
                    f"worker-{worker}.log": tail
                    for worker, tail in zip(action.workers, tails, strict=True)
                    if tail
                }
                if data:
                    await self._client.apply(_log_config_map(action.name, data, job=observed.job))
        except (TimeoutError, errors.KubeError) as error:
            _log.warning("the log of %s is not kept: %s", action.name, error or type(error).__name__)

    async def _tail(self, worker: int, observed: Observed) -> str:
        """Empty where it cannot be had in time: a worker that does not answer costs no other its log."""
        try:
            async with asyncio.timeout(_TAIL_SECONDS):
                return await self._first_tail(worker, observed)
        except TimeoutError:
            _log.info("no log of worker %d within %.0f s", worker, _TAIL_SECONDS)
            return ""

    async def _first_tail(self, worker: int, observed: Observed) -> str:
        pod = by_worker(observed.pods).get(worker)
        if pod is None:
            return ""
        sources: list[Callable[[], Awaitable[str]]] = []
        address = (pod.get("status") or {}).get("podIP")
        if address:
            sources.append(lambda: self._launchers.log_tail(address, tail_bytes=LOG_TAIL_BYTES))
        sources.append(lambda: self._pod_log(pod))
        for source in sources:
            try:
                return await source()
            except (LauncherError, errors.KubeError) as error:
                _log.info("no log of worker %d: %s", worker, error)
        return ""

    async def _pod_log(self, pod: Document) -> str:
        metadata = pod["metadata"]
        return await self._client.pod_log(
            namespace=metadata["namespace"],
            name=metadata["name"],
            container=constants.CONTAINER_NAME,
            tail_bytes=LOG_TAIL_BYTES,
        )


def _kind_of(action: Create | Scale | PatchTemplate | Delete | DeletePod) -> kinds.Kind:
    if isinstance(action, Create):
        return kinds.of(action.body)
    if isinstance(action, Delete):
        return kinds.named(action.kind)
    return kinds.POD if isinstance(action, DeletePod) else kinds.STATEFUL_SET


def _verb_of(action: Create | Scale | PatchTemplate | Delete | DeletePod) -> Verb:
    if isinstance(action, Create):
        return "create"
    return "delete" if isinstance(action, Delete | DeletePod) else "change"


def _log_config_map(name: str, data: dict[str, str], *, job: Document) -> dict[str, Any]:
    """Owned by the job, so that it goes with it."""
    owner = Metadata.model_validate(job["metadata"])
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child_metadata(owner, name=name),
        "data": data,
    }
