"""The children as whole documents, and all of them against Kubernetes' own schemas."""

from __future__ import annotations

import json
from typing import Any

import kubernetes_validate
import pytest
from xeontrain_operator.builders.children import build_children, child_kinds
from xeontrain_operator.builders.config_map import build_config_map
from xeontrain_operator.builders.network_policy import build_network_policy
from xeontrain_operator.builders.service import build_service
from xeontrain_operator.builders.stateful_set import build_stateful_set
from xeontrain_operator.settings import NetworkPolicySettings

from tests.unit.operator.sample import SETTINGS, UID, job

SELECTOR = {"xeontrain.dev/job-uid": UID}
LABELS = {
    "app.kubernetes.io/managed-by": "xeontrain-operator",
    "xeontrain.dev/job-name": "mail",
    "xeontrain.dev/job-uid": UID,
}
OWNER = {
    "apiVersion": "xeontrain.dev/v1alpha1",
    "kind": "XeonTrainJob",
    "name": "mail",
    "uid": UID,
    "controller": True,
    "blockOwnerDeletion": True,
}
METADATA = {"name": "mail", "namespace": "team", "labels": LABELS, "ownerReferences": [OWNER]}


def test_service() -> None:
    """Headless, found by the UID, and resolving before pods are ready."""
    assert build_service(job()) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": METADATA,
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": SELECTOR,
            "ports": [{"name": "launcher", "port": 29400, "targetPort": "launcher", "protocol": "TCP"}],
        },
    }


def test_network_policy() -> None:
    """Own pods on every TCP port; operator and collectors on the launcher's alone; ingress only."""
    prometheus = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    settings = SETTINGS.model_copy(
        update={"network_policy": NetworkPolicySettings(metrics_from=(prometheus,))}
    )
    operator = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "xeontrain-system"}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "xeontrain"}},
    }
    assert build_network_policy(job(), settings=settings) == {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": METADATA,
        "spec": {
            "podSelector": {"matchLabels": SELECTOR},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"podSelector": {"matchLabels": SELECTOR}}], "ports": [{"protocol": "TCP"}]},
                {"from": [operator, prometheus], "ports": [{"protocol": "TCP", "port": 29400}]},
            ],
        },
    }


def test_network_policy_may_be_switched_off() -> None:
    """A cluster with a policy of its own wants none of ours."""
    settings = SETTINGS.model_copy(update={"network_policy": NetworkPolicySettings(enabled=False)})
    assert build_network_policy(job(), settings=settings) is None


def test_config_map_holds_the_training_document() -> None:
    """All defaults filled in, so that a later operator's defaults do not reach a running job; immutable."""
    made = build_config_map(job(spec={"checkpoint": {"keep": 5}}))
    assert made is not None
    assert made["immutable"] is True
    document = json.loads(made["data"]["training.json"])
    assert {key: document[key] for key in ("contract", "jobName", "jobNamespace", "jobUid")} == {
        "contract": 1,
        "jobName": "mail",
        "jobNamespace": "team",
        "jobUid": UID,
    }
    assert document["checkpoint"] == {"everyMinutes": 10, "keep": 5}
    assert document["training"]["hyperparameters"]["batchSize"] == 16
    assert document["training"]["dataset"]["columns"]["label"] == "label"


def test_no_config_map_for_a_command() -> None:
    """There is nothing to say to a program that is not ours."""
    assert build_config_map(job(spec={"command": ["true"]})) is None


def test_stateful_set_around_its_template() -> None:
    """Everything but the template, exactly."""
    made = build_stateful_set(job(), settings=SETTINGS)
    template = made["spec"].pop("template")
    digest = made["metadata"].pop("annotations")["xeontrain.dev/template-hash"]
    claims = made["spec"].pop("volumeClaimTemplates")
    assert made == {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": METADATA,
        "spec": {
            "replicas": 2,
            "serviceName": "mail",
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": SELECTOR},
        },
    }
    assert template["metadata"]["labels"].items() >= LABELS.items()
    assert len(digest) == 16
    assert [claim["metadata"]["name"] for claim in claims] == ["xeontrain-storage"]
    assert claims[0]["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}},
    }


def test_template_hash_names_the_template() -> None:
    """Equal templates have equal hashes; another image, or another count of failures, has another."""

    def digest(**more: Any) -> str:
        made = build_stateful_set(job(**more), settings=SETTINGS)
        return str(made["metadata"]["annotations"]["xeontrain.dev/template-hash"])

    assert digest() == digest()
    assert digest() != digest(spec={"image": "other"})
    later = build_stateful_set(job(), settings=SETTINGS, failures_counted=1)
    assert later["metadata"]["annotations"]["xeontrain.dev/template-hash"] != digest()


@pytest.mark.parametrize(
    ("retain", "owners"), [("Keep", None), ("Delete", [{**OWNER, "controller": False}])], ids=str
)
def test_claims_live_as_long_as_they_should(retain: str, owners: list[Any] | None) -> None:
    """`Delete`: the job owns its claims, so they go with it, and not with the set at the run's end."""
    made = build_stateful_set(job(spec={"storage": {"retain": retain}}), settings=SETTINGS)
    (claim,) = made["spec"]["volumeClaimTemplates"]
    assert claim["metadata"].get("ownerReferences") == owners


def test_order_of_the_children() -> None:
    """What pods need before their first second comes before the set."""
    kinds = [child["kind"] for child in build_children(job(), settings=SETTINGS)]
    assert kinds == ["Service", "ConfigMap", "NetworkPolicy", "StatefulSet"]


EVERYTHING: dict[str, Any] = {
    "workers": 4,
    "ranksPerWorker": 2,
    "image": "registry.example/mine:2",
    "imagePullPolicy": "Always",
    "imagePullSecrets": [{"name": "registry"}],
    "resources": {"cpu": "16", "memory": "64Gi", "sharedMemory": "8Gi"},
    "pinning": "Required",
    "nodePool": "xeon",
    "placement": {
        "cpuGenerations": ["IceLake", "SapphireRapids"],
        "cpuFeatures": ["AMXBF16"],
        "instanceTypes": ["m7i.8xlarge"],
        "capacityType": "Spot",
        "spread": "Packed",
        "nodeSelector": {"disk": "nvme"},
        "tolerations": [{"key": "batch", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
                ]
            }
        },
        "priorityClassName": "batch",
        "schedulerName": "other",
    },
    "command": ["python", "train.py"],
    "args": ["--epochs", "3"],
    "workingDir": "/src",
    "env": [{"name": "A", "value": "1"}],
    "envFrom": [{"secretRef": {"name": "hub"}, "prefix": "HUB_"}],
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
    "storage": {"size": None, "claim": "models", "subPath": "team-a"},
    "podTemplate": {
        "labels": {"team": "nlp"},
        "annotations": {"note": "x"},
        "serviceAccountName": "trainer",
        "containers": [{"name": "logger", "image": "l", "resources": {"limits": {"cpu": "100m"}}}],
    },
}


@pytest.mark.parametrize(
    "spec",
    [{}, {"command": ["true"], "storage": None}, EVERYTHING, {"storage": {"retain": "Delete"}}],
    ids=["training", "command", "everything", "claims-of-the-job"],
)
def test_children_are_valid_for_kubernetes(spec: dict[str, Any]) -> None:
    """Against the built-in schemas, with unknown fields refused, for the oldest version that is supported."""
    made = build_children(job(spec=spec), settings=SETTINGS)
    for child in made:
        kubernetes_validate.validate(child, "1.34", strict=True)
    assert {child["kind"] for child in made} == child_kinds(job(spec=spec), settings=SETTINGS)
