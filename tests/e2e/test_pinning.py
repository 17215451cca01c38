"""What CPUPinned says on real kubelets, and who it blames: several small jobs at once, seconds in all."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.cluster.cluster import POOL_LABEL, SYSTEM_TAINT, Cluster
from tests.e2e.jobs import Document, Namespace, command_job, condition

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

INJECT = "inject"
WAITS = "import os, time\nprint('on', sorted(os.sched_getaffinity(0)), flush=True)\ntime.sleep(600)"
ON_SYSTEM = {
    "placement": {
        "nodeSelector": {POOL_LABEL: "system"},
        "tolerations": [{"key": SYSTEM_TAINT["key"], "operator": "Exists"}],
    }
}
ON_XEON = {"placement": {"nodeSelector": {POOL_LABEL: "xeon"}}}


@dataclass(frozen=True)
class Stage:
    """Two namespaces in which somebody meddles with pods: one with policies, one with a LimitRange."""

    meddled: Namespace
    limited: Namespace


@pytest.fixture(scope="module")
def stage(installed: Cluster, thin_image: str) -> Iterator[Stage]:
    """All jobs of this module, under way. Two workers hold the exclusive CPUs of both pinned nodes before
    anything else starts, so that the shared pool of each is what is left."""
    names = [f"pinning-{secrets.token_hex(3)}" for _ in range(2)]
    meddled, limited = (Namespace(installed, name) for name in names)
    for name in names:
        installed.kubectl("create", "namespace", name)
    meddle(meddled)
    limited.apply(LIMIT_RANGE)
    meddled.apply(command_job("static", image=thin_image, script=WAITS, pinning="Required"))
    meddled.wait_for_phase("static", "Running")
    one = {"image": thin_image, "script": WAITS, "workers": 1}
    meddled.apply(
        command_job("system-required", **one, **ON_SYSTEM, pinning="Required"),
        command_job("looks-exclusive", **one, **ON_XEON, podTemplate={"labels": {INJECT: "request"}}),
        command_job("sidecar", **one, **ON_XEON, podTemplate={"labels": {INJECT: "sidecar"}}),
        command_job(
            "sidecar-required", **one, pinning="Required", podTemplate={"labels": {INJECT: "sidecar"}}
        ),
    )
    helper = {"name": "helper", "image": thin_image, "command": ["sleep", "600"]}
    limited.apply(command_job("limited", **one, podTemplate={"containers": [helper]}))
    yield Stage(meddled, limited)
    for namespace in (meddled, limited):
        namespace.kubectl("delete", "xeontrainjobs", "--all", "--wait=false")
    installed.kubectl("delete", "mutatingadmissionpolicies,mutatingadmissionpolicybindings", *POLICIES)
    for namespace in (meddled, limited):
        namespace.wait("no pods", lambda namespace=namespace: not namespace.list("pods"), timeout_seconds=90)
    installed.kubectl("delete", "namespace", *names, "--wait=false")


# Meddlers.

LIMIT_RANGE: Document = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "defaults"},
    "spec": {
        "limits": [
            {
                "type": "Container",
                "default": {"cpu": "500m", "memory": "128Mi"},
                "defaultRequest": {"cpu": "100m", "memory": "64Mi"},
            }
        ]
    },
}
POLICIES = ("tests-inject-sidecar", "tests-inject-request")


def meddle(ns: Namespace) -> None:
    """Adds a container to pods labelled `inject: sidecar`, as a service mesh does, and lowers the CPU request
    of those labelled `inject: request`; returns when the API server does so."""
    sidecar = (
        '[JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{'
        'name: "proxy", image: object.spec.containers[0].image, command: ["sleep", "600"]}}]'
    )
    # Of the container that brings the launcher too: its request would keep the pod off a node that is full.
    request = " + ".join(
        f"(has(object.spec.{kind}) ? "
        f'[JSONPatch{{op: "replace", path: "/spec/{kind}/0/resources/requests/cpu", value: "0"}}] : [])'
        for kind in ("containers", "initContainers")
    )
    ns.cluster.kubectl("apply", "-f", "-", input=json.dumps(policies(ns, sidecar=sidecar, request=request)))
    probe = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "labels": {INJECT: "sidecar"}},
        "spec": {"containers": [{"name": "main", "image": "any"}]},
    }

    def injected() -> bool:
        arguments = ("create", "--dry-run=server", "-o", "json", "-f", "-")
        return len(json.loads(ns.kubectl(*arguments, input=json.dumps(probe)))["spec"]["containers"]) == 2

    ns.wait("the sidecar is injected", injected, timeout_seconds=30)


def policies(ns: Namespace, **expressions: str) -> Document:
    """A MutatingAdmissionPolicy and its binding for each label and JSON patch."""
    items: list[Document] = []
    for label, expression in expressions.items():
        metadata = {"name": f"tests-inject-{label}"}
        group = "admissionregistration.k8s.io"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        spec = {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns.name}},
                "objectSelector": {"matchLabels": {INJECT: label}},
                "resourceRules": [rule],
            },
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
        }
        head: Document = {"apiVersion": f"{group}/v1", "metadata": metadata}
        items.append({**head, "kind": "MutatingAdmissionPolicy", "spec": spec})
        items.append(
            {**head, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": metadata["name"]}}
        )
    return {"apiVersion": "v1", "kind": "List", "items": items}


# What is said.


def pinned(ns: Namespace, job: str, *, reason: str) -> str:
    """The condition's message once it has this reason."""

    def check() -> Document | None:
        found = condition(ns.job(job), "CPUPinned")
        return found if found and found["reason"] == reason else None

    message: str = ns.wait(f"{job}: CPUPinned is {reason}", check, timeout_seconds=60)["message"]
    return message


def test_static_policy_is_exclusive(stage: Stage) -> None:
    """Even under Required: each worker has a CPU of its own, and its ranks run on that."""
    ns = stage.meddled
    assert "Each of 2 workers has 1 CPU of its own" in pinned(ns, "static", reason="Exclusive")
    workers = ns.job("static")["status"]["workerStatuses"]
    assert [(worker["exclusive"], worker["reason"]) for worker in workers] == [("True", "Exclusive")] * 2
    cpus = [worker["cpus"] for worker in workers]
    assert len(set(cpus)) == 2
    for number, cpu in enumerate(cpus):
        assert f"on [{cpu}]" in ns.kubectl("logs", f"static-{number}")


def test_burstable_pod_that_looks_exclusive_is_not(stage: Stage) -> None:
    """Its CPU set is as large as its limit and smaller than the node: the launcher cannot tell, the operator
    names what was changed."""
    ns = stage.meddled
    message = pinned(ns, "looks-exclusive", reason="NotGuaranteed")
    assert "trainer asks for 0 cpu and has a limit of 1" in message
    assert "something has changed what the job asks for it" in message

    def judged() -> Document | None:
        (worker,) = ns.job("looks-exclusive")["status"]["workerStatuses"]
        return worker if worker.get("exclusive") else None

    worker = ns.wait("the launcher's own word", judged, timeout_seconds=60)
    assert (worker["exclusive"], worker["reason"]) == ("Unknown", "NotProven")


def test_injected_sidecar_is_named(stage: Stage) -> None:
    """A container that the job does not have takes the exclusive CPUs away."""
    message = pinned(stage.meddled, "sidecar", reason="NotGuaranteed")
    assert "Container proxy, which the job does not have, has no limit of cpu" in message


def test_limit_range_is_named(stage: Stage) -> None:
    """Defaults that differ as request and limit do the same to a container that the job does have."""
    message = pinned(stage.limited, "limited", reason="NotGuaranteed")
    assert "Container helper asks for 100m cpu and has a limit of 500m" in message
    assert "LimitRange of this namespace" in message


@pytest.mark.parametrize(
    ("job", "reason", "words"),
    [
        ("system-required", "SharedPool", "the shared pool"),
        ("sidecar-required", "NotGuaranteed", "Container proxy"),
    ],
)
def test_required_fails_at_once_with_the_reason(stage: Stage, job: str, reason: str, words: str) -> None:
    """Before any rank runs; nothing is tried again."""
    ns = stage.meddled
    ended = ns.wait_for_phase(job, "Failed", timeout_seconds=60)
    failed = condition(ended, "Failed")
    assert failed is not None
    assert failed["reason"] == "NotPinned"
    assert f"spec.pinning is Required, but {reason}: " in failed["message"]
    assert words in failed["message"]
    assert words in pinned(ns, job, reason=reason)
    assert ended["status"]["restarts"]["failures"] == 0


def test_policy_none_is_the_shared_pool(stage: Stage, thin_image: str) -> None:
    """Without `Required` the job runs there all the same, and the condition tells what the node lacks."""
    ns = stage.meddled
    ns.wait_for_phase("system-required", "Failed", timeout_seconds=60)
    ns.apply(command_job("system", image=thin_image, script=WAITS, workers=1, **ON_SYSTEM))
    ns.wait_for_phase("system", "Running")
    assert "static CPU manager policy" in pinned(ns, "system", reason="SharedPool")
