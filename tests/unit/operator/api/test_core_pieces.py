"""Pieces of core Kubernetes in a job: what an API server would refuse in the pods is said beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from xeontrain_operator.api.core_pieces import PIECES, core_problems
from xeontrain_operator.api.crd import PRESERVE_UNKNOWN, Schema, structural_schema
from xeontrain_operator.api.validation import validate_job

from tests.contract.cases.edits import COMMAND, edited

AFFINITY = "spec.placement.affinity"
CONTAINERS = "spec.podTemplate.containers"
LIMITS = {"limits": {"cpu": 1, "memory": "1Gi"}}


def _problems(edits: dict[str, Any]) -> dict[str, str]:
    return {problem.path: problem.message for problem in validate_job(edited(COMMAND, edits))}


@pytest.mark.parametrize(
    ("edits", "path", "says"),
    [
        (
            {"spec.volumes": [{"name": "a", "hostPath": {}}]},
            "spec.volumes[0].hostPath.path",
            "is missing; add it",
        ),
        (
            {"spec.volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPth": {"path": "/x"}}]},
            "spec.volumes[1].hostPth",
            "is not a field; write hostPath",
        ),
        (
            {"spec.volumes": [{"name": "a", "hostPath": {"path": 8}}]},
            "spec.volumes[0].hostPath.path",
            "is 8; write a string in quotes",
        ),
        (
            {"spec.volumes": [{"name": "a", "secret": {"secretName": "s", "defaultMode": "0400"}}]},
            "spec.volumes[0].secret.defaultMode",
            'is "0400"; write a whole number',
        ),
        (
            {"spec.volumes": [{"name": "a", "emptyDir": {}, "configMap": {"name": "c"}}]},
            "spec.volumes[0]",
            "has 2 sources (emptyDir, configMap); write one, or one volume each",
        ),
        (
            {"spec.volumes": [{"name": "a", "emptyDir": {"sizeLimit": ["1Gi"]}}]},
            "spec.volumes[0].emptyDir.sizeLimit",
            "write a whole number, or a string in quotes",
        ),
        (
            {AFFINITY: {"nodeAffinity": {"required": {}}}},
            f"{AFFINITY}.nodeAffinity.required",
            "is not a field",
        ),
        (
            {AFFINITY: {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
            f"{AFFINITY}.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey",
            "is missing; add it",
        ),
        (
            {"spec.podTemplate.securityContext": {"runAsUser": "1000"}},
            "spec.podTemplate.securityContext.runAsUser",
            'is "1000"; write a whole number',
        ),
        (
            {"spec.podTemplate.containerSecurityContext": {"capabilities": {"add": "SYS_NICE"}}},
            "spec.podTemplate.containerSecurityContext.capabilities.add",
            "write a list",
        ),
        (
            {CONTAINERS: [{"name": "log", "image": "l", "resources": LIMITS, "comand": ["x"]}]},
            f"{CONTAINERS}[0].comand",
            "is not a field; write command",
        ),
        (
            {CONTAINERS: [{"name": "log", "image": "l", "env": [{"value": "x"}]}]},
            f"{CONTAINERS}[0].env[0].name",
            "is missing; add it",
        ),
    ],
    ids=[
        "missing-field",
        "misspelt-volume",
        "number-for-text",
        "text-for-number",
        "two-sources",
        "quantity",
        "misspelt-affinity",
        "term-without-topology",
        "user",
        "capabilities",
        "misspelt-command",
        "variable-without-name",
    ],
)
def test_mistakes(edits: dict[str, Any], path: str, says: str) -> None:
    """Each is named by the field of the job, with what to write."""
    found = _problems(edits)
    assert path in found, found
    assert says in found[path]


@pytest.mark.parametrize(
    "edits",
    [
        {"spec.volumes": [{"name": "a"}, {"name": "b", "emptyDir": None}, {"name": "c", "emptyDir": {}}]},
        {"spec.volumes": [{"name": "a", "nfs": {"server": "s", "path": "/x", "readOnly": True}}]},
        {"spec.volumes": [{"name": "a", "csi": {"driver": "d", "volumeAttributes": {"any": "thing"}}}]},
        {
            "spec.volumes": [
                {"name": "a", "projected": {"sources": [{"configMap": {"name": "c", "optional": True}}]}},
                {"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["x"]}}}},
            ]
        },
        {CONTAINERS: [{"name": "log", "image": "l", "resources": LIMITS, "ports": [{"containerPort": 80}]}]},
    ],
    ids=["empty", "nfs", "csi", "nested", "container"],
)
def test_what_kubernetes_takes(edits: dict[str, Any]) -> None:
    """Nothing is said about it."""
    assert _problems(edits) == {}


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"spec": None},
        {"spec": {"volumes": {}}},
        {"spec": {"volumes": [7, None]}},
        {"spec": {"placement": 1}},
    ],
)
def test_what_is_no_piece_at_all(document: dict[str, Any]) -> None:
    """That is said by the resource's own schema."""
    assert core_problems(document) == []


def _preserved(schema: Schema, path: str = "") -> Iterator[str]:
    if schema.get(PRESERVE_UNKNOWN):
        yield path
        return
    for key, child in schema.get("properties", {}).items():
        yield from _preserved(child, f"{path}.{key}" if path else key)
    if "items" in schema:
        yield from _preserved(schema["items"], f"{path}[]")


def test_every_piece_is_checked() -> None:
    """No part of the resource that an API server takes unseen is left out."""
    assert sorted(_preserved(structural_schema()["properties"]["spec"], "spec")) == sorted(PIECES)
