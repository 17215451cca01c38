"""The cache: what is newer stays, what is gone stays gone, and a full LIST is the truth."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xeontrain_operator import constants
from xeontrain_operator.cache import Cache, Key, Table, job_key_of, slim_identity, slim_job, slim_pod

Body = dict[str, Any]


def _object(name: str, *, version: int, uid: str = "", kind: str = "Service", **more: Any) -> Body:
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "labels": {constants.LABEL_JOB_NAME: "job", constants.LABEL_JOB_UID: "job-uid"},
        "managedFields": [{"manager": "someone"}],
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            constants.ANNOTATION_TEMPLATE_HASH: "abc",
        },
    }
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}


def _versions(table: Table) -> dict[str, str]:
    return {body["metadata"]["name"]: body["metadata"]["resourceVersion"] for body in table.values()}


def test_older_copy_never_replaces_a_newer() -> None:
    """The answer to a write of ours and the watch event about it may come in either order."""
    table = Table(slim_identity)
    assert table.put(_object("a", version=5))
    assert not table.put(_object("a", version=4))
    assert not table.put(_object("a", version=5))
    assert table.put(_object("a", version=6))
    assert _versions(table) == {"a": "6"}


def test_deleted_object_stays_deleted() -> None:
    """A late answer about an object that was seen deleted does not bring it back; its successor comes."""
    table = Table(slim_identity)
    table.put(_object("a", version=5, uid="one"))
    assert table.drop(_object("a", version=7, uid="one"))
    assert not table.put(_object("a", version=6, uid="one"))
    assert table.put(_object("a", version=9, uid="two"))
    assert not table.drop(_object("a", version=7, uid="one"))
    assert _versions(table) == {"a": "9"}


def test_list_removes_what_the_watch_missed_and_keeps_what_is_newer() -> None:
    """After a LIST at 10: gone is what was older and is not in it; what came later stays."""
    table = Table(slim_identity)
    for body in (_object("missed", version=3), _object("same", version=4), _object("newer", version=12)):
        table.put(body)
    listed = [_object("same", version=4), _object("unheard", version=8)]
    changed = table.replace(listed, snapshot="10")
    assert _versions(table) == {"same": "4", "newer": "12", "unheard": "8"}
    assert {body["metadata"]["name"] for body in changed} == {"missed", "unheard"}


def test_list_does_not_bring_back_what_was_deleted_during_it() -> None:
    """A DELETED event that arrives while the pages come in wins over the pages."""
    table = Table(slim_identity)
    table.put(_object("a", version=3))
    table.drop(_object("a", version=11))
    assert table.replace([_object("a", version=3)], snapshot="10") == []
    assert len(table) == 0


def test_list_of_one_namespace_leaves_the_others() -> None:
    """An operator of two namespaces lists them one after another."""
    table = Table(slim_identity)
    other = _object("a", version=3)
    other["metadata"]["namespace"] = "other"
    table.put(other)
    table.put(_object("a", version=3, uid="mine"))
    table.replace([], snapshot="10", namespace="team")
    assert [body["metadata"]["namespace"] for body in table.values()] == ["other"]


_EVENTS = st.lists(st.sampled_from("abc"), max_size=12)


@given(_EVENTS, st.randoms(use_true_random=False))
def test_any_order_of_delivery_ends_equal(history: list[str], random: Any) -> None:
    """The same events in any order, each any number of times, leave the same table."""
    events, live = [], dict[str, int]()
    for version, name in enumerate(history, start=1):
        if name in live:
            events.append(("DELETED", _object(name, version=version, uid=f"{name}-{live.pop(name)}")))
        else:
            live[name] = version
            events.append(("ADDED", _object(name, version=version, uid=f"{name}-{version}")))
    shuffled = events + random.sample(events, k=len(events) // 2)
    random.shuffle(shuffled)
    table = Table(slim_identity)
    for kind, body in shuffled:
        if kind == "DELETED":
            table.drop(body)
        else:
            table.put(body)
    assert _versions(table) == {name: str(number) for name, number in live.items()}


def test_pods_are_found_by_the_jobs_uid() -> None:
    """Pods of a job of the same name made before are not among them."""
    cache = Cache()
    old = _object("job-0", version=3, uid="old", kind="Pod", spec={}, status={})
    old["metadata"]["labels"][constants.LABEL_JOB_UID] = "old-job"
    cache.put_child(old)
    cache.put_child(_object("job-1", version=4, uid="mine", kind="Pod", spec={}, status={}))
    assert [pod["metadata"]["uid"] for pod in cache.pods("job-uid")] == ["mine"]
    assert [pod["metadata"]["uid"] for pod in cache.pods("old-job")] == ["old"]
    cache.drop_child(old)
    assert cache.pods("old-job") == ()
    cache.put_child(_object("job-0", version=9, uid="new", kind="Pod", spec={}, status={}))
    assert [pod["metadata"]["uid"] for pod in cache.pods("job-uid")] == ["new", "mine"]


def test_pods_survive_a_resync() -> None:
    """The index by UID is rebuilt with the table."""
    cache = Cache()
    cache.put_child(_object("job-0", version=3, uid="gone", kind="Pod"))
    cache.replace_children("Pod", [_object("job-1", version=4, uid="there", kind="Pod")], snapshot="10")
    assert [pod["metadata"]["uid"] for pod in cache.pods("job-uid")] == ["there"]


def _job(*, version: int, phase: str = "Running") -> Body:
    return _object("job", version=version, kind=constants.KIND, spec={"workers": 1}, status={"phase": phase})


def test_finished_job_is_a_name_until_it_changes() -> None:
    """An ended job costs its name; a change of it (its time to live, say) makes it a job again."""
    cache = Cache()
    cache.put_job(_job(version=5, phase="Succeeded"))
    cache.finish(_job(version=5, phase="Succeeded"))
    assert cache.jobs.get(Key("team", "job")) is None
    assert cache.phases() == {"Succeeded": 1}
    assert not cache.put_job(_job(version=4))
    assert cache.replace_jobs([_job(version=5)], snapshot="10") == []
    assert cache.put_job(_job(version=6, phase="Succeeded"))
    assert cache.phases() == {"Succeeded": 1}


@pytest.mark.parametrize("how", ["event", "resync"])
def test_deleted_finished_job_is_forgotten(how: str) -> None:
    """Nothing of it remains, however its deletion became known."""
    cache = Cache()
    cache.finish(_job(version=5, phase="Failed"))
    if how == "event":
        cache.drop_job(_job(version=6, phase="Failed"))
    else:
        cache.replace_jobs([], snapshot="10")
    assert cache.phases() == {}


def test_slim_copies_keep_what_is_read_and_no_more() -> None:
    """No bookkeeping of other writers, no definition of pods; slimming twice is slimming once."""
    pod = _object(
        "job-0",
        version=1,
        kind="Pod",
        spec={
            "nodeName": "node-a",
            "containers": [{"name": "trainer", "image": "i", "env": [{"name": "A", "value": "1"}]}],
            "volumes": [{"name": "v"}],
        },
        status={"phase": "Running"},
    )
    slim = slim_pod(pod)
    assert slim["spec"] == {"nodeName": "node-a", "containers": [{"name": "trainer", "image": "i"}]}
    assert slim["status"] == {"phase": "Running"}
    assert slim["metadata"]["annotations"] == {constants.ANNOTATION_TEMPLATE_HASH: "abc"}
    assert "managedFields" not in slim["metadata"]
    assert slim_pod(slim) == slim
    assert slim_job(slim_job(_job(version=1))) == slim_job(_job(version=1))


def test_a_pod_that_is_not_guaranteed_keeps_what_its_containers_ask_for() -> None:
    """A condition names the container that keeps it from being so, and who filled that in."""
    asked = {"limits": {"cpu": "1"}}
    pod = _object(
        "job-0",
        version=1,
        kind="Pod",
        spec={
            "initContainers": [{"name": "init", "command": ["x"]}],
            "containers": [{"name": "trainer", "resources": asked, "env": []}],
        },
        status={"phase": "Running", "qosClass": "Burstable"},
    )
    pod["metadata"]["annotations"][constants.ANNOTATION_LIMIT_RANGER] = "LimitRanger plugin set: cpu"
    slim = slim_pod(pod)
    assert slim["spec"] == {
        "initContainers": [{"name": "init"}],
        "containers": [{"name": "trainer", "resources": asked}],
    }
    assert slim["metadata"]["annotations"][constants.ANNOTATION_LIMIT_RANGER] == "LimitRanger plugin set: cpu"
    assert slim_pod(slim) == slim


def test_job_of_a_child() -> None:
    """The label names it; an object without our labels belongs to no job."""
    assert job_key_of(_object("x", version=1)) == Key("team", "job")
    assert job_key_of({"metadata": {"name": "x", "namespace": "team"}}) is None
