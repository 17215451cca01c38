"""What the operator remembers of the cluster: slim copies, fed by watches, replaced whole at each resync.

A watch can miss a deletion, and the answer to a write of ours can arrive after a newer event; so every copy
is judged by its resourceVersion, and a UID that was seen deleted never comes back.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from xeontrain_operator import constants

Object = dict[str, Any]
Slim = Callable[[Object], Object]


class Key(NamedTuple):
    """The name of a namespaced object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def key_of(body: Mapping[str, Any]) -> Key:
    """The key of an object itself."""
    return Key(body["metadata"]["namespace"], body["metadata"]["name"])


def job_key_of(child: Mapping[str, Any]) -> Key | None:
    """The key of the job that a child names in its labels; None where it names none."""
    name = _labels(child).get(constants.LABEL_JOB_NAME)
    return Key(child["metadata"]["namespace"], name) if name else None


def is_watched(body: Mapping[str, Any]) -> bool:
    """Whether the watches on children bring this object: it has our label and a job's name."""
    return _labels(body).get(constants.LABEL_MANAGED_BY) == constants.MANAGED_BY and bool(job_key_of(body))


def version_of(body: Mapping[str, Any]) -> int:
    """The resourceVersion as a number: those of one kind are comparable (Kubernetes API concepts)."""
    return _number(body["metadata"].get("resourceVersion") or "")


def _number(resource_version: str) -> int:
    return int(resource_version) if resource_version.isdigit() else 0


def _labels(body: Mapping[str, Any]) -> Mapping[str, str]:
    return body["metadata"].get("labels") or {}


def _job_uid(child: Mapping[str, Any]) -> str:
    return _labels(child).get(constants.LABEL_JOB_UID, "")


# More deletions than this would have to pass during one listing or one call before a copy came back.
_MAX_TOMBSTONES = 8192


class Table:
    """Slim copies of the objects of one kind."""

    def __init__(self, slim: Slim) -> None:
        self.slim = slim
        self._objects: dict[Key, Object] = {}
        self._deleted: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._objects)

    def values(self) -> tuple[Object, ...]:
        return tuple(self._objects.values())

    def get(self, key: Key) -> Object | None:
        return self._objects.get(key)

    def put(self, body: Object) -> bool:
        """Take over `body` unless what is known is as new; returns whether it was news."""
        key, uid = key_of(body), body["metadata"]["uid"]
        known = self._objects.get(key)
        if uid in self._deleted or (known is not None and version_of(known) >= version_of(body)):
            return False
        self._objects[key] = self.slim(body)
        return True

    def drop(self, body: Mapping[str, Any]) -> bool:
        """The object of this UID is gone for good; returns whether it was known."""
        key, uid = key_of(body), body["metadata"]["uid"]
        self._deleted[uid] = None
        if len(self._deleted) > _MAX_TOMBSTONES:
            self._deleted.popitem(last=False)
        known = self._objects.get(key)
        if known is None or known["metadata"]["uid"] != uid:
            return False
        del self._objects[key]
        return True

    def release(self, key: Key) -> None:
        """Keep no copy of the object, though it lives on."""
        self._objects.pop(key, None)

    def replace(
        self, listed: Iterable[Object], *, snapshot: str, namespace: str | None = None
    ) -> list[Object]:
        """Make the table equal to a full LIST taken at resourceVersion `snapshot`; keep what is newer.

        The LIST is of `namespace`, or of all where that is None. Returns the objects that were news or had
        gone unseen.
        """
        present: set[str] = set()
        changed: list[Object] = []
        for body in listed:
            present.add(body["metadata"]["uid"])
            if self.put(body):
                changed.append(body)
        for key, known in tuple(self._objects.items()):
            listable = _is_in(key, namespace) and version_of(known) <= _number(snapshot)
            if listable and known["metadata"]["uid"] not in present:
                self.drop(known)
                changed.append(known)
        return changed


def _is_in(key: Key, namespace: str | None) -> bool:
    return namespace is None or key.namespace == namespace


_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "ownerReferences",
)


def _slim(body: Object, **parts: Any) -> Object:
    metadata = {key: body["metadata"][key] for key in _METADATA if key in body["metadata"]}
    annotations = body["metadata"].get("annotations") or {}
    own = {key: value for key, value in annotations.items() if key.startswith(f"{constants.GROUP}/")}
    if own:
        metadata["annotations"] = own
    kept = {key: part for key, part in parts.items() if part}
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": metadata, **kept}


def _picked(item: Object, *keys: str) -> Object:
    return {key: item[key] for key in keys if key in item}


def slim_job(body: Object) -> Object:
    """All but the bookkeeping of other writers in the metadata."""
    return _slim(body, spec=body.get("spec"), status=body.get("status"))


def slim_stateful_set(body: Object) -> Object:
    """Of the pod template, which is frozen and larger than all the rest, only what the containers ask for."""
    spec = body.get("spec") or {}
    template = (spec.get("template") or {}).get("spec") or {}
    containers = _containers(template, "name", "resources")
    kept = {"replicas": spec.get("replicas"), "template": {"spec": containers}}
    return _slim(body, spec=kept, status=body.get("status"))


def slim_pod(body: Object) -> Object:
    """Where it runs and how it fares; of its definition only the node and the images. Of one that is not
    Guaranteed also what its containers ask for, and who filled that in: a condition names the cause."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    shares = status.get("qosClass") not in (None, "Guaranteed")
    kept = _containers(spec, "name", "image", "resources") if shares else _images(spec)
    kept.update({key: spec[key] for key in ("nodeName", "priority") if spec.get(key)})
    slim = _slim(body, spec=kept, status=body.get("status"))
    filled_in = (body["metadata"].get("annotations") or {}).get(constants.ANNOTATION_LIMIT_RANGER)
    if shares and filled_in:
        annotations = slim["metadata"].setdefault("annotations", {})
        annotations[constants.ANNOTATION_LIMIT_RANGER] = filled_in
    return slim


def _images(spec: Object) -> Object:
    return {"containers": [_picked(item, "name", "image") for item in spec.get("containers") or ()]}


def _containers(spec: Object, *keys: str) -> Object:
    """These keys of all containers, those that only start included."""
    lists = ("containers", "initContainers")
    return {name: [_picked(item, *keys) for item in spec[name]] for name in lists if spec.get(name)}


def slim_identity(body: Object) -> Object:
    """That it is there, and whose it is."""
    return _slim(body)


class Finished(NamedTuple):
    """All that is kept of a job that has ended and whose children are gone."""

    uid: str
    phase: str
    version: int


class Cache:
    """The jobs that live, the names of those that have ended, and everybody's children."""

    def __init__(self) -> None:
        self.jobs = Table(slim_job)
        self.children: dict[str, Table] = {
            "StatefulSet": Table(slim_stateful_set),
            "Service": Table(slim_identity),
            "ConfigMap": Table(slim_identity),
            "NetworkPolicy": Table(slim_identity),
            "Pod": Table(slim_pod),
        }
        self._finished: dict[Key, Finished] = {}
        # Pods of each job UID: a superset, checked again on reading.
        self._pods_of: dict[str, set[Key]] = {}

    def put_job(self, body: Object) -> bool:
        """Take over a job; returns whether it was news. A finished one is, once it has changed."""
        key = key_of(body)
        finished = self._finished.get(key)
        if finished is not None and finished.version >= version_of(body):
            return False
        self._finished.pop(key, None)
        return self.jobs.put(body)

    def drop_job(self, body: Mapping[str, Any]) -> bool:
        """The job is gone; returns whether it was known."""
        key = key_of(body)
        finished = self._finished.get(key)
        if finished is not None and finished.uid == body["metadata"]["uid"]:
            del self._finished[key]
        return self.jobs.drop(body)

    def finish(self, body: Mapping[str, Any]) -> None:
        """The job has ended and its children are cleaned: keep its name alone."""
        key = key_of(body)
        phase = (body.get("status") or {}).get("phase") or ""
        self._finished[key] = Finished(body["metadata"]["uid"], phase, version_of(body))
        self.jobs.release(key)

    def put_child(self, body: Object) -> bool:
        """Take over a child, of whatever kind; returns whether it was news."""
        news = self.children[body["kind"]].put(body)
        if news and body["kind"] == "Pod":
            self._pods_of.setdefault(_job_uid(body), set()).add(key_of(body))
        return news

    def drop_child(self, body: Mapping[str, Any]) -> bool:
        """The child is gone; returns whether it was known."""
        known = self.children[body["kind"]].drop(body)
        if body["kind"] == "Pod" and known:
            self._forget_pod(body)
        return known

    def child(self, kind: str, key: Key) -> Object | None:
        """The child of that name, whoever its owner is."""
        return self.children[kind].get(key)

    def pods(self, job_uid: str) -> tuple[Object, ...]:
        """The pods that carry this job's UID, terminating ones included, by name."""
        table = self.children["Pod"]
        found = (table.get(key) for key in sorted(self._pods_of.get(job_uid, ())))
        return tuple(pod for pod in found if pod is not None and _job_uid(pod) == job_uid)

    def replace_jobs(
        self, listed: Iterable[Object], *, snapshot: str, namespace: str | None = None
    ) -> list[Object]:
        """Make the jobs equal to a full LIST; returns what was news or had gone unseen."""
        present = {key_of(body): body for body in listed}
        gone = [
            key
            for key, finished in self._finished.items()
            if key not in present and _is_in(key, namespace) and finished.version <= _number(snapshot)
        ]
        for key in gone:
            del self._finished[key]
        live = [body for body in present.values() if not self._known_as_finished(body)]
        return self.jobs.replace(live, snapshot=snapshot, namespace=namespace)

    def replace_children(
        self, kind: str, listed: Iterable[Object], *, snapshot: str, namespace: str | None = None
    ) -> list[Object]:
        """Make the children of one kind equal to a full LIST; returns what was news or had gone unseen."""
        changed = self.children[kind].replace(listed, snapshot=snapshot, namespace=namespace)
        if kind == "Pod":
            self._pods_of.clear()
            for pod in self.children[kind].values():
                self._pods_of.setdefault(_job_uid(pod), set()).add(key_of(pod))
        return changed

    def phases(self) -> Counter[str]:
        """How many jobs are in which phase, finished ones included. May be called from any thread."""
        counts = Counter((job.get("status") or {}).get("phase") or "Pending" for job in self.jobs.values())
        counts.update(finished.phase for finished in tuple(self._finished.values()))
        return counts

    def _known_as_finished(self, body: Mapping[str, Any]) -> bool:
        finished = self._finished.get(key_of(body))
        return finished is not None and finished.version >= version_of(body)

    def _forget_pod(self, pod: Mapping[str, Any]) -> None:
        keys = self._pods_of.get(_job_uid(pod), set())
        keys.discard(key_of(pod))
        if not keys:
            self._pods_of.pop(_job_uid(pod), None)
