"""The effects' order and safety: the loop with a decision of the test's own, on a real API server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from xeontrain_operator import constants
from xeontrain_operator.cache import Cache, Key
from xeontrain_operator.handlers.resync import Resync
from xeontrain_operator.kube import config, kinds
from xeontrain_operator.kube.aio import AioKubeClient
from xeontrain_operator.launcher_client import LauncherClient
from xeontrain_operator.metrics import Metrics
from xeontrain_operator.reconcile.decision import Create, Decision, Delete, JobEvent, KeepLog, Scale
from xeontrain_operator.reconcile.loop import Decide, Reconciler
from xeontrain_operator.reconcile.observed import Observed
from xeontrain_operator.settings import Settings
from xeontrain_operator.workqueue import RetryLater

from tests.cluster.control_plane import ControlPlane
from tests.operator.conftest import Calls
from tests.operator.harness import Team, job

pytestmark = pytest.mark.cluster

STATUS = {"phase": "Pending"}
Body = dict[str, Any]


class Script:
    """Stands for `decide`: answers from a function of what is observed, and remembers what it saw."""

    def __init__(self, answer: Callable[[Observed], Decision]) -> None:
        self._answer = answer
        self.seen: list[Observed] = []

    def __call__(self, observed: Observed, *, settings: Settings, now: datetime) -> Decision:
        assert settings.namespace
        assert now.tzinfo is not None
        self.seen.append(observed)
        return self._answer(observed)


class Bench:
    """A reconciler over a real client, with its cache in the test's hands."""

    def __init__(self, client: AioKubeClient, team: Team) -> None:
        self.client = client
        self.team = team
        self.cache = Cache()
        self.key = Key(team.namespace, "job")
        self.launchers = LauncherClient(timeout_seconds=1.0, max_bytes=4096)

    def reconciler(self, decide: Decide, *, client: AioKubeClient | None = None) -> Reconciler:
        return Reconciler(
            client or self.client,
            cache=self.cache,
            launchers=self.launchers,
            decide=decide,
            settings=Settings(),
            metrics=Metrics(),
        )

    async def job(self) -> Body:
        """A job on the server and in the cache."""
        body = job("job")
        body["metadata"]["namespace"] = self.team.namespace
        made = await self.client.create(body)
        self.cache.put_job(made)
        return made

    async def child(self, owner: Body, *, name: str = "job", ours: bool = True) -> Body:
        """A Service on the server, labelled as ours or not."""
        labels = {
            constants.LABEL_MANAGED_BY: constants.MANAGED_BY,
            constants.LABEL_JOB_NAME: "job",
            constants.LABEL_JOB_UID: owner["metadata"]["uid"],
        }
        return await self.client.create(service(self.team.namespace, name, labels if ours else {}))


def service(namespace: str, name: str = "job", labels: dict[str, str] | None = None) -> Body:
    """A headless Service."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
    }


@pytest.fixture
async def bench(client: AioKubeClient, control_plane: ControlPlane, namespace: str) -> AsyncIterator[Bench]:
    """A bench in a namespace of its own."""
    made = Bench(client, Team(control_plane, namespace))
    yield made
    await made.launchers.close()


async def test_nothing_is_done_where_the_end_is_not_on_record(bench: Bench, calls: Calls) -> None:
    """`status_first` and a stale copy: the write is a conflict, so no child is deleted and no event is
    sent; the job has been read again, so that the next reconcile succeeds."""
    made = await bench.job()
    child = await bench.child(made)
    decision = Decision(
        status={"phase": "Succeeded"},
        status_first=True,
        actions=(Delete(kind="Service", name="job", uid=child["metadata"]["uid"]),),
        events=(JobEvent(reason="Succeeded", message="done"),),
    )

    async def change_meanwhile() -> None:
        await bench.client.patch(
            kinds.JOB, namespace=bench.key.namespace, name="job", patch={"metadata": {"labels": {"a": "b"}}}
        )

    script = Script(lambda observed: decision)
    reconciler = bench.reconciler(script)
    fetch = reconciler._fetch

    async def fetch_then_change(key: Key) -> Any:
        found = await fetch(key)
        if len(script.seen) == 1:
            await change_meanwhile()
        return found

    reconciler._fetch = fetch_then_change  # type: ignore[method-assign]
    with pytest.raises(RetryLater, match="changed meanwhile"):
        await reconciler.reconcile(bench.key)
    assert bench.team.get("service", "job") is not None
    assert ("create", "Event", 201) not in calls
    await reconciler.reconcile(bench.key)
    assert bench.team.get("service", "job") is None
    assert bench.team.status("job")["phase"] == "Succeeded"
    assert ("create", "Event", 201) in calls


async def test_a_stale_copy_builds_nothing(bench: Bench) -> None:
    """The cache says Pending, the server says Succeeded: the copy's wish to build is not carried out."""
    made = await bench.job()
    await bench.client.replace_status(made, status={"phase": "Succeeded"})

    def build_unless_ended(observed: Observed) -> Decision:
        status = dict(observed.job.get("status") or {})
        if status.get("phase") == "Succeeded":
            return Decision(status=status)
        return Decision(status=status, actions=(Create(body=service(bench.key.namespace)),))

    script = Script(build_unless_ended)
    await bench.reconciler(script).reconcile(bench.key)
    assert [bool((seen.job.get("status") or {}).get("phase")) for seen in script.seen] == [False, True]
    assert bench.team.get("service", "job") is None


async def test_unchanged_status_is_not_written_and_tells_nothing(bench: Bench, calls: Calls) -> None:
    """An equal status is no write, and events belong to writes."""
    await bench.job()
    decision = Decision(status=STATUS, events=(JobEvent(reason="Once", message="only once"),))
    reconciler = bench.reconciler(Script(lambda observed: decision))
    calls.clear()
    for _ in range(3):
        await reconciler.reconcile(bench.key)
    assert [verb for verb, _, _ in calls] == ["status", "create"]
    assert bench.team.events("job") == ["Once"]


@pytest.mark.parametrize("action", ["delete", "scale"])
async def test_another_objects_child_is_not_hit(bench: Bench, calls: Calls, action: str) -> None:
    """The name is right and the UID is another's: the object is left alone."""
    made = await bench.job()
    await bench.child(made)
    act: Delete | Scale = Delete(kind="Service", name="job", uid="another")
    if action == "scale":
        act = Scale(name="job", uid="another", replicas=0)
    decision = Decision(status=STATUS, actions=(act,))
    await bench.reconciler(Script(lambda observed: decision)).reconcile(bench.key)
    assert bench.team.get("service", "job") is not None
    assert not {"delete", "patch"} & {verb for verb, _, _ in calls}


async def test_our_own_child_that_the_cache_has_not_heard_of(bench: Bench) -> None:
    """The name is taken by our own object: it is learnt, and the next look sees it."""
    made = await bench.job()
    await bench.child(made)

    def make_if_absent(observed: Observed) -> Decision:
        wanted = () if observed.service else (Create(body=service(bench.key.namespace)),)
        return Decision(status=STATUS, actions=wanted)

    script = Script(make_if_absent)
    await bench.reconciler(script).reconcile(bench.key)
    assert script.seen[-1].service is not None
    assert script.seen[-1].service["metadata"]["labels"][constants.LABEL_JOB_NAME] == "job"


async def test_strangers_are_read_anew_each_time(bench: Bench) -> None:
    """An object without our labels is in no watch: it is looked at directly until it has gone."""
    made = await bench.job()
    stranger = await bench.child(made, ours=False)

    def make_if_absent(observed: Observed) -> Decision:
        wanted = () if observed.service else (Create(body=service(bench.key.namespace)),)
        return Decision(status=STATUS, actions=wanted)

    script = Script(make_if_absent)
    reconciler = bench.reconciler(script)
    await reconciler.reconcile(bench.key)
    assert script.seen[-1].service is not None
    await bench.client.delete(
        kinds.SERVICE, namespace=bench.key.namespace, name="job", uid=stranger["metadata"]["uid"]
    )
    await reconciler.reconcile(bench.key)
    assert [seen.service is None for seen in script.seen[-2:]] == [True, True]
    found = bench.team.get("service", "job")
    assert found is not None
    assert found["metadata"]["uid"] != stranger["metadata"]["uid"]


async def test_refusal_is_kept_until_the_spec_changes(bench: Bench, calls: Calls) -> None:
    """A child that the server refuses is not asked for again at each reconcile; a new generation of the
    job asks anew."""
    await bench.job()
    broken = service(bench.key.namespace)
    broken["spec"]["ports"] = [{"port": 99999999}]

    def make(observed: Observed) -> Decision:
        return Decision(status=STATUS, actions=() if observed.apply_errors else (Create(body=broken),))

    script = Script(make)
    reconciler = bench.reconciler(script)
    again_seconds = await reconciler.reconcile(bench.key)
    await reconciler.reconcile(bench.key)
    assert again_seconds is not None
    assert "spec.ports" in script.seen[-1].apply_errors[0].message
    assert calls.count(("create", "Service", 422)) == 1
    changed = await bench.client.patch(
        kinds.JOB, namespace=bench.key.namespace, name="job", patch={"spec": {"runPolicy": {"suspend": True}}}
    )
    bench.cache.put_job(changed)
    await reconciler.reconcile(bench.key)
    assert calls.count(("create", "Service", 422)) == 2


async def test_job_that_is_gone_is_forgotten(bench: Bench) -> None:
    """The key of a deleted job: nothing to do, nothing kept."""
    made = await bench.job()
    script = Script(lambda observed: Decision(status=STATUS))
    reconciler = bench.reconciler(script)
    await bench.client.delete(
        kinds.JOB, namespace=bench.key.namespace, name="job", uid=made["metadata"]["uid"]
    )
    bench.cache.jobs.release(bench.key)
    assert await reconciler.reconcile(bench.key) is None
    assert script.seen == []


async def test_finished_job_is_kept_as_a_name(bench: Bench) -> None:
    """After its end nothing of it but its name and phase is held."""
    await bench.job()
    decision = Decision(status={"phase": "Succeeded"}, finished=True, requeue_seconds=60.0)
    assert await bench.reconciler(Script(lambda observed: decision)).reconcile(bench.key) == 60.0
    assert bench.cache.jobs.get(bench.key) is None
    assert bench.cache.phases() == {"Succeeded": 1}


async def test_warnings_are_read_where_asked_for(bench: Bench) -> None:
    """`ask_events`: the Warning events of the set reach the very next decision, others do not."""
    await bench.job()
    namespace = bench.key.namespace
    labels = {constants.LABEL_MANAGED_BY: constants.MANAGED_BY, constants.LABEL_JOB_NAME: "job"}
    stateful_set = await bench.client.create(_stateful_set(namespace, labels))
    bench.cache.put_child(stateful_set)
    for kind, uid in (("Warning", stateful_set["metadata"]["uid"]), ("Warning", "x"), ("Normal", "x")):
        await bench.client.create(_event(namespace, kind=kind, uid=uid))
    await bench.client.create(_event(namespace, kind="Normal", uid=stateful_set["metadata"]["uid"]))
    script = Script(lambda observed: Decision(status=STATUS, ask_events=True))
    await bench.reconciler(script).reconcile(bench.key)
    assert [len(seen.events) for seen in script.seen] == [0, 1]


def _event(namespace: str, *, kind: str, uid: str) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "e-", "namespace": namespace},
        "involvedObject": {"kind": "StatefulSet", "namespace": namespace, "name": "job", "uid": uid},
        "type": kind,
        "reason": "FailedCreate",
        "message": "no",
    }


def _stateful_set(namespace: str, labels: dict[str, str]) -> Body:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "job", "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "trainer", "image": "i"}]},
            },
        },
    }


async def test_lost_nodes_are_told_apart(bench: Bench) -> None:
    """Gone and NotReady are lost, Ready is not."""
    await bench.job()
    for name, ready in (("lost-node", "False"), ("good-node", "True")):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"{bench.key.namespace}-{name}"}}
        bench.team.kubectl("create", "-f", "-", input=json.dumps(node))
        conditions = {"conditions": [{"type": "Ready", "status": ready}]}
        bench.team.patch_status("node", f"{bench.key.namespace}-{name}", conditions)
    names = tuple(f"{bench.key.namespace}-{name}" for name in ("lost-node", "good-node", "no-node"))
    script = Script(lambda observed: Decision(status=STATUS, ask_nodes=names))
    await bench.reconciler(script).reconcile(bench.key)
    assert script.seen[-1].lost_nodes == {names[0], names[2]}
    bench.team.kubectl("delete", "node", names[0], names[1])


async def test_log_that_cannot_be_had_holds_up_nothing(bench: Bench) -> None:
    """No launcher and no kubelet answers: the actions after it are carried out."""
    made = await bench.job()
    child = await bench.child(made)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "job-0",
            "namespace": bench.key.namespace,
            "uid": "pod",
            "resourceVersion": "1",
            "labels": {**child["metadata"]["labels"], constants.LABEL_POD_INDEX: "0"},
        },
        "status": {"podIP": "127.0.0.1"},
    }
    bench.cache.put_child(pod)
    actions = (
        KeepLog(name="job-log", workers=(0,)),
        Delete(kind="Service", name="job", uid=child["metadata"]["uid"]),
    )
    script = Script(lambda observed: Decision(status=STATUS, actions=actions))
    await bench.reconciler(script).reconcile(bench.key)
    assert bench.team.get("service", "job") is None


async def test_api_server_that_does_not_answer(bench: Bench, tmp_path: Path) -> None:
    """A fault that passes: the key comes back, nothing is forgotten."""
    await bench.job()
    (tmp_path / "kubeconfig").write_text(
        json.dumps(
            {
                "current-context": "x",
                "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{"name": "x", "user": {"token": "t"}}],
                "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            }
        )
    )
    dead = AioKubeClient(await config.load(in_cluster=False, kubeconfig=tmp_path / "kubeconfig"))
    reconciler = bench.reconciler(Script(lambda observed: Decision(status=STATUS)), client=dead)
    with pytest.raises(RetryLater):
        await reconciler.reconcile(bench.key)
    await dead.close()
    assert bench.cache.jobs.get(bench.key) is not None


async def test_resync_finds_what_no_watch_has_brought(bench: Bench) -> None:
    """A deletion and a creation that went unseen: the cache is whole afterwards and the job's key queued."""
    made = await bench.job()
    for name in ("missed", "kept"):
        bench.cache.put_child(await bench.child(made, name=name))
    unseen = await bench.child(made, name="unseen")
    missed = bench.cache.child("Service", Key(bench.key.namespace, "missed"))
    assert missed is not None
    await bench.client.delete(
        kinds.SERVICE, namespace=bench.key.namespace, name="missed", uid=missed["metadata"]["uid"]
    )
    queued: list[Key] = []
    resync = Resync(
        bench.client,
        cache=bench.cache,
        metrics=Metrics(),
        namespaces=(bench.key.namespace,),
        enqueue=queued.append,
    )
    await resync.run()
    names = {body["metadata"]["name"] for body in bench.cache.children["Service"].values()}
    assert names == {"kept", unseen["metadata"]["name"]}
    assert bench.key in queued


async def test_resync_forgets_a_job_whose_deletion_went_unseen(bench: Bench) -> None:
    """Its key is queued, so that the reconcile finds it gone."""
    made = await bench.job()
    await bench.client.delete(
        kinds.JOB, namespace=bench.key.namespace, name="job", uid=made["metadata"]["uid"]
    )
    queued: list[Key] = []
    resync = Resync(
        bench.client,
        cache=bench.cache,
        metrics=Metrics(),
        namespaces=(bench.key.namespace,),
        enqueue=queued.append,
    )
    await resync.run()
    assert bench.cache.jobs.get(bench.key) is None
    assert queued == [bench.key]
