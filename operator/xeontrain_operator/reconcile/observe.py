"""Reading: a job and all that stands under its name, from the cache and, where that is blind, directly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from xeontrain_operator import constants
from xeontrain_operator.cache import Cache, Key, key_of
from xeontrain_operator.kube import errors, kinds
from xeontrain_operator.kube.client import KubeClient
from xeontrain_operator.reconcile.memory import JobMemory
from xeontrain_operator.reconcile.observed import Document, LauncherReport, Observed, Rival, WorkerAnswer
from xeontrain_operator.reconcile.pods import by_worker, is_running, node_of, pod_uid

_NAMED: Final = {
    "service": kinds.SERVICE,
    "config_map": kinds.CONFIG_MAP,
    "network_policy": kinds.NETWORK_POLICY,
    "stateful_set": kinds.STATEFUL_SET,
}
# Beyond this many objects one LIST of the namespace's warnings is cheaper than one a piece.
_MAX_SINGLE_QUESTIONS: Final = 6
_MAX_EVENTS: Final = 2000


class Reader:
    """Makes `Observed`."""

    def __init__(self, client: KubeClient, cache: Cache) -> None:
        self._client = client
        self._cache = cache

    async def observe(self, job: Document, memory: JobMemory, *, now: float) -> Observed:
        """The job and its children. `now` are clock seconds, for what is remembered until a time."""
        key, uid = key_of(job), job["metadata"]["uid"]
        named = {field: await self._named(kind, key, memory) for field, kind in _NAMED.items()}
        pods = self._cache.pods(uid)
        return Observed(
            job=job,
            **named,
            pods=pods,
            claims=memory.claims if named["stateful_set"] else await self._named_claim(job),
            events=memory.events,
            lost_nodes=memory.lost_nodes,
            rivals=memory.rivals,
            launcher=_present(memory.launcher, pods),
            launcher_error=memory.launcher_error,
            answers=_present_answers(memory.answers, pods),
            apply_errors=memory.apply_errors(generation=job["metadata"].get("generation", 0), now=now),
        )

    async def claims(self, observed: Observed) -> tuple[Document, ...]:
        """The claims of the set's templates (they carry the job's UID) and the one that the job names.

        Claims are not watched: they matter while pods wait, and at the job's end.
        """
        namespace, selector = (
            observed.job["metadata"]["namespace"],
            f"{constants.LABEL_JOB_UID}={observed.uid}",
        )
        found = list(await self._named_claim(observed.job))
        async for page in self._client.pages(kinds.CLAIM, namespace=namespace, label_selector=selector):
            found += page.items
        return tuple(found)

    async def warnings(self, observed: Observed) -> tuple[Document, ...]:
        """core/v1 Events of type Warning about the set, the claims and those pods that do not run."""
        idle = (pod for pod in observed.pods if not is_running(pod))
        objects = [*idle, *observed.claims, *((observed.stateful_set,) if observed.stateful_set else ())]
        uids = {str(item["metadata"]["uid"]) for item in objects}
        namespace = observed.job["metadata"]["namespace"]
        if len(uids) > _MAX_SINGLE_QUESTIONS:
            return await self._events(namespace, "type=Warning", uids)
        found: list[Document] = []
        for uid in sorted(uids):
            found += await self._events(namespace, f"type=Warning,involvedObject.uid={uid}", uids)
        return tuple(found)

    def rivals(self, observed: Observed) -> tuple[Rival, ...]:
        """Other jobs of which some pods have a node and some have none."""
        others = (job for job in self._cache.jobs.values() if job["metadata"]["uid"] != observed.uid)
        seen = ((job, self._cache.pods(job["metadata"]["uid"])) for job in others)
        return tuple(Rival(job=job, pods=pods) for job, pods in seen if _is_half_placed(pods))

    async def lost_nodes(self, names: Iterable[str]) -> frozenset[str]:
        """Of these nodes, those that are gone or not Ready. A node that may not be read counts as present."""
        return frozenset([name for name in names if await self._is_lost(name)])

    async def _named(self, kind: kinds.Kind, key: Key, memory: JobMemory) -> Document | None:
        if (kind.kind, key.name) not in memory.strangers:
            return self._cache.child(kind.kind, key)
        try:
            return await self._client.get(kind, namespace=key.namespace, name=key.name)
        except errors.NotFound:
            memory.strangers.discard((kind.kind, key.name))
            return self._cache.child(kind.kind, key)

    async def _named_claim(self, job: Document) -> tuple[Document, ...]:
        storage: Mapping[str, Any] = (job.get("spec") or {}).get("storage") or {}
        if not storage.get("claim"):
            return ()
        namespace = job["metadata"]["namespace"]
        try:
            return (await self._client.get(kinds.CLAIM, namespace=namespace, name=storage["claim"]),)
        except errors.NotFound:
            return ()

    async def _events(self, namespace: str, selector: str, uids: set[str]) -> tuple[Document, ...]:
        found: list[Document] = []
        async for page in self._client.pages(kinds.EVENT, namespace=namespace, field_selector=selector):
            found += [item for item in page.items if (item.get("involvedObject") or {}).get("uid") in uids]
            if len(found) >= _MAX_EVENTS:
                break
        return tuple(found)

    async def _is_lost(self, name: str) -> bool:
        try:
            node = await self._client.get(kinds.NODE, namespace=None, name=name)
        except errors.NotFound:
            return True
        except errors.Forbidden:
            return False
        conditions: Iterable[Mapping[str, Any]] = (node.get("status") or {}).get("conditions") or ()
        ready = next((item for item in conditions if item.get("type") == "Ready"), {})
        return ready.get("status") != "True"


def _is_half_placed(pods: Iterable[Document]) -> bool:
    placed = {node_of(pod) is not None for pod in pods}
    return len(placed) == 2


def worker_zero_address(pods: Iterable[Document]) -> tuple[str, str] | None:
    """(pod IP, pod UID) of worker 0, once its container runs."""
    pod = by_worker(pods).get(0)
    address = address_of(pod)
    return (address, pod_uid(pod)) if pod is not None and address else None


def address_of(pod: Document | None) -> str | None:
    """The pod's IP, once its container runs."""
    found = (pod.get("status") or {}).get("podIP") if pod is not None and is_running(pod) else None
    return str(found) if found else None


def _present_answers(
    answers: Mapping[int, WorkerAnswer], pods: Iterable[Document]
) -> dict[int, WorkerAnswer]:
    """Those of pods that are still there."""
    there = {pod_uid(pod) for pod in pods}
    return {worker: answer for worker, answer in answers.items() if answer.pod_uid in there}


def _present(report: LauncherReport | None, pods: Iterable[Document]) -> LauncherReport | None:
    """The report, if it is of the pod that is worker 0 now."""
    pod = by_worker(pods).get(0)
    if report is None or pod is None or report.status.get("podUid") != pod_uid(pod):
        return None
    return report
