"""A job's children on a real API server: made once, owned, restored, never taken from others."""

from __future__ import annotations

from typing import Any

import pytest
from xeontrain_operator import constants

from tests.operator.harness import Operator, Team, job, training_job, wait_for

pytestmark = pytest.mark.cluster

CHILDREN = ("service", "configmap", "networkpolicy", "statefulset")
WRITING = 'verb="create",'


def _uid(body: dict[str, Any] | None) -> str:
    return str((body or {}).get("metadata", {}).get("uid", ""))


def test_job_makes_its_children_and_owns_them(operator: Operator, team: Team) -> None:
    """All four children, controlled by the job by UID, under our field manager alone."""
    team.apply(training_job("made", workers=2))
    uid = _uid(team.exists("xtj", "made"))
    for kind in CHILDREN:
        child = team.exists(kind, "made")
        owner = child["metadata"]["ownerReferences"]
        assert [(item["uid"], item["controller"]) for item in owner] == [(uid, True)]
        labels = child["metadata"]["labels"]
        assert labels[constants.LABEL_MANAGED_BY] == constants.MANAGED_BY
        assert labels[constants.LABEL_JOB_UID] == uid
    wait_for(lambda: len(team.list("pods")) >= 2, what="the pods of two workers")
    assert operator.process.poll() is None


def test_nothing_is_written_to_a_users_object_but_its_status(operator: Operator, team: Team) -> None:
    """No finalizer and no annotation on the job, on children or on pods: with the operator gone, nothing
    is stuck. The operator's only field of the job is the status."""
    team.apply(job("clean"))
    team.phase("clean", "Pending", "Starting")
    wait_for(lambda: team.get("pod", "clean-0"), what="a pod")
    found = team.exists("xtj", "clean")
    assert "finalizers" not in found["metadata"]
    assert set(found["metadata"]["annotations"]) == {"kubectl.kubernetes.io/last-applied-configuration"}
    written = [item for item in found["metadata"]["managedFields"] if "kubectl" not in item["manager"]]
    assert {(item["manager"], item["subresource"]) for item in written} == {
        (constants.FIELD_MANAGER, "status")
    }
    assert {key for item in written for key in item["fieldsV1"]} == {"f:status"}
    for kind in ("service", "networkpolicy", "statefulset"):
        assert "finalizers" not in team.exists(kind, "clean")["metadata"]
    pod = team.exists("pod", "clean-0")
    assert "finalizers" not in pod["metadata"]
    managers = {item["manager"] for item in pod["metadata"]["managedFields"]}
    assert constants.FIELD_MANAGER not in managers


@pytest.mark.parametrize("kind", CHILDREN)
def test_deleted_child_comes_back(operator: Operator, team: Team, kind: str) -> None:
    """A child that somebody deletes by hand is made again."""
    name = f"again-{kind[:4]}"
    team.apply(training_job(name))
    first = _uid(team.exists(kind, name))
    team.kubectl("delete", kind, name, "--wait=false")
    wait_for(lambda: _uid(team.get(kind, name)) not in ("", first), what=f"another {kind}")


@pytest.mark.parametrize("labelled", [False, True], ids=["plain", "with our label"])
def test_strangers_object_is_named_and_left_alone(operator: Operator, team: Team, labelled: bool) -> None:
    """An object of somebody else under a child's name: a condition, no overwrite; once it has gone the job
    goes on."""
    name = f"taken-{'labelled' if labelled else 'plain'}"
    labels = {constants.LABEL_MANAGED_BY: constants.MANAGED_BY} if labelled else {}
    stranger = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": labels},
        "spec": {"ports": [{"port": 80}], "clusterIP": "None"},
    }
    team.apply(stranger)
    before = team.exists("service", name)
    team.apply(job(name))
    wait_for(
        lambda: team.condition(name, "Accepted").get("status") == "False",
        what=f"a refusal: {team.status(name)}",
    )
    refusal = team.condition(name, "Accepted")
    assert refusal["reason"] == "ForeignObject"
    assert f"Service {name}" in refusal["message"]
    assert team.get("service", name) == before
    assert team.get("statefulset", name) is None
    team.kubectl("delete", "service", name)
    team.exists("statefulset", name)
    assert team.condition(name, "Accepted")["status"] == "True"


def test_unchanged_job_costs_no_write(operator: Operator, team: Team) -> None:
    """Seven reconciles of a job that is as it should be: nothing is written, not even in vain."""
    team.apply(job("still"))
    team.exists("statefulset", "still")
    team.phase("still", "Pending")
    wait_for(lambda: team.get("pod", "still-0"), what="a pod")
    writes, reconciles = _quiet(operator)
    for number in range(7):
        team.kubectl("label", "service", "still", f"poke={number}", "--overwrite")
        wait_for(
            lambda before=reconciles + number: operator.reconciles() > before or None, what="a reconcile"
        )
    assert operator.reconciles() >= reconciles + 7
    assert operator.writes() == writes


def _quiet(operator: Operator) -> tuple[float, float]:
    """Writes and reconciles, once the former have not moved for two seconds."""
    seen = [operator.writes() - 1.0, operator.writes()]

    def settled() -> bool | None:
        seen.append(operator.writes())
        return (len(seen) > 12 and len(set(seen[-10:])) == 1) or None

    wait_for(settled, what="writes to settle")
    return operator.writes(), operator.reconciles()


def test_refused_child_is_said(operator: Operator, team: Team) -> None:
    """What the API server will not take comes back in the server's words, in `Accepted`."""
    team.apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "no-sets"},
            "spec": {"hard": {"count/statefulsets.apps": "0"}},
        }
    )
    wait_for(
        lambda: ((team.get("resourcequota", "no-sets") or {}).get("status") or {}).get("hard"),
        what="the quota to hold",
    )
    try:
        team.apply(job("refused"))
        wait_for(
            lambda: "exceeded quota" in team.condition("refused", "Accepted").get("message", ""),
            what=f"the server's words: {team.status('refused')}",
        )
        assert team.condition("refused", "Accepted")["status"] == "False"
    finally:
        team.kubectl("delete", "resourcequota", "no-sets")


def test_jobs_of_other_namespaces_are_left_alone(operator: Operator, team: Team, namespace: str) -> None:
    """An operator of one namespace, with a role in that alone, serves that alone."""
    other = Team(team.control_plane, namespace)
    other.apply(job("elsewhere"))
    team.apply(job("here"))
    team.exists("statefulset", "here")
    assert other.status("elsewhere") == {}
    assert other.get("statefulset", "elsewhere") is None
