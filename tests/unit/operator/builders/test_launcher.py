"""Who brings the launcher: the trainer image, or the operator for a command in an image of the user's own."""

from __future__ import annotations

from typing import Any

import pytest
from xeontrain_operator.builders.env import termination_bytes
from xeontrain_operator.builders.pod import build_pod_template

from tests.unit.operator.sample import SETTINGS, job

OWN = ["python3", "-m", "xeontrain_trainer.launcher", "--"]
INJECTED = ["python3", "-I", "-S", "/run/xeontrain-launcher/launcher.pyz", "--"]
COMMAND = {"command": ["python", "train.py"]}
FOREIGN = {**COMMAND, "image": "registry.example/mine:1"}


def _pod(spec: dict[str, Any], **settings: Any) -> dict[str, Any]:
    template = build_pod_template(job(spec=spec), settings=SETTINGS.model_copy(update=settings))
    return dict(template["spec"])


@pytest.mark.parametrize(
    ("spec", "launcher"),
    [
        ({}, OWN),
        ({"image": "registry.example/trainer-and-more:1"}, OWN),
        (COMMAND, OWN),
        (FOREIGN, INJECTED),
    ],
    ids=["training", "training-in-an-own-image", "command", "command-in-an-own-image"],
)
def test_rule(spec: dict[str, Any], launcher: list[str]) -> None:
    """Only a command in an image of one's own needs the copy, and only it gets one."""
    made = _pod(spec)
    trainer = made["containers"][0]
    assert trainer["command"][: len(launcher)] == launcher
    injected = launcher is INJECTED
    names = [volume["name"] for volume in made["volumes"]]
    paths = [mount["mountPath"] for mount in trainer["volumeMounts"]]
    assert ("initContainers" in made) == injected
    assert ("xeontrain-launcher" in names) == injected
    assert ("/run/xeontrain-launcher" in paths) == injected


def test_copying_container() -> None:
    """The operator's image copies the file and leaves; the trainer can only read it."""
    made = _pod(FOREIGN, launcher_image="registry.example/operator:7", launcher_image_pull_policy="Never")
    quantities = {"cpu": "100m", "memory": "64Mi"}
    assert made["initContainers"] == [
        {
            "name": "xeontrain-launcher",
            "image": "registry.example/operator:7",
            "imagePullPolicy": "Never",
            "command": ["cp", "/opt/xeontrain/launcher.pyz", "/run/xeontrain-launcher/launcher.pyz"],
            "resources": {"requests": quantities, "limits": quantities},
            "volumeMounts": [{"name": "xeontrain-launcher", "mountPath": "/run/xeontrain-launcher"}],
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            },
        }
    ]
    mounts = made["containers"][0]["volumeMounts"]
    assert {
        "name": "xeontrain-launcher",
        "mountPath": "/run/xeontrain-launcher",
        "readOnly": True,
    } in mounts


def test_pull_policy_is_kubernetes_own_where_the_chart_has_none() -> None:
    """No key rather than a null, which server-side apply would own."""
    assert "imagePullPolicy" not in _pod(FOREIGN)["initContainers"][0]


def test_termination_message_leaves_room_for_the_copying_container() -> None:
    """The kubelet shares 12 KiB over all containers, initial ones too."""
    sidecars = {"podTemplate": {"containers": [{"name": f"s{number}", "image": "s"} for number in range(3)]}}
    assert termination_bytes(job(spec={**COMMAND, **sidecars})) == 12288 // 4
    assert termination_bytes(job(spec={**FOREIGN, **sidecars})) == 12288 // 5
