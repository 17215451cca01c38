"""The pod template: the launcher as process 1, Guaranteed, restricted, with the user's additions."""

from __future__ import annotations

from typing import Any

import pytest
from xeontrain_operator.builders.pod import build_pod_template, build_trainer_container
from xeontrain_operator.builders.volumes import build_volume_mounts, build_volumes

from tests.unit.operator.builders.test_children import EVERYTHING
from tests.unit.operator.sample import SETTINGS, job

RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _pod(spec: dict[str, Any] | None = None) -> dict[str, Any]:
    return dict(build_pod_template(job(spec=spec), settings=SETTINGS)["spec"])


def test_trainer_container() -> None:
    """All of it but environment and mounts, which have tests of their own."""
    made = build_trainer_container(job(), settings=SETTINGS)
    del made["env"], made["volumeMounts"]
    assert made == {
        "name": "trainer",
        "image": "registry.example/trainer:1",
        "command": [
            *("python3", "-m", "xeontrain_trainer.launcher", "--"),
            *("python3", "-m", "xeontrain_trainer.train"),
        ],
        "ports": [{"name": "launcher", "containerPort": 29400, "protocol": "TCP"}],
        "resources": {
            "requests": {"cpu": "8", "memory": "16Gi"},
            "limits": {"cpu": "8", "memory": "16Gi"},
        },
        "securityContext": {**RESTRICTED, "readOnlyRootFilesystem": True},
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "launcher"},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }


def test_pod_around_its_container() -> None:
    """No token, no variables of other Services, the asked grace, and a user that is not root."""
    made = _pod()
    for key in ("containers", "volumes", "affinity", "tolerations"):
        del made[key]
    assert made == {
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": 120,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }


def test_volumes_and_mounts_of_a_training_job() -> None:
    """Scratch, shared memory of half the memory, the document; the claim comes from the set's template."""
    assert build_volumes(job()) == [
        {"name": "xeontrain-state", "emptyDir": {}},
        {"name": "xeontrain-tmp", "emptyDir": {}},
        {"name": "xeontrain-shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(8 << 30)}},
        {"name": "xeontrain-training", "configMap": {"name": "mail"}},
    ]
    assert build_volume_mounts(job()) == [
        {"name": "xeontrain-state", "mountPath": "/run/xeontrain"},
        {"name": "xeontrain-tmp", "mountPath": "/tmp"},
        {"name": "xeontrain-shm", "mountPath": "/dev/shm"},
        {"name": "xeontrain-training", "mountPath": "/etc/xeontrain", "readOnly": True},
        {"name": "xeontrain-storage", "mountPath": "/var/lib/xeontrain"},
    ]


def test_existing_claim_is_mounted_below_its_sub_path() -> None:
    """A claim that is shared between teams is entered where the job says."""
    made = job(spec={"storage": {"size": None, "claim": "models", "subPath": "team-a"}})
    assert build_volumes(made)[-1] == {
        "name": "xeontrain-storage",
        "persistentVolumeClaim": {"claimName": "models"},
    }
    assert build_volume_mounts(made)[-1] == {
        "name": "xeontrain-storage",
        "mountPath": "/var/lib/xeontrain",
        "subPath": "team-a",
    }


def test_users_tmp_takes_the_place_of_ours() -> None:
    """A path is mounted once."""
    own = {
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "volumeMounts": [{"name": "scratch", "mountPath": "/tmp/"}],
    }
    paths = [mount["mountPath"].rstrip("/") for mount in build_volume_mounts(job(spec=own))]
    assert sorted(paths) == sorted(set(paths))


def test_users_fields_reach_the_pod() -> None:
    """Each field of the resource that a pod has too, in its place."""
    made, container = _pod(EVERYTHING), _pod(EVERYTHING)["containers"][0]
    assert container["command"] == [
        *("python3", "-I", "-S", "/run/xeontrain-launcher/launcher.pyz", "--"),
        *("python", "train.py", "--epochs", "3"),
    ]
    assert (container["image"], container["imagePullPolicy"]) == ("registry.example/mine:2", "Always")
    assert container["workingDir"] == "/src"
    assert container["envFrom"] == [{"prefix": "HUB_", "secretRef": {"name": "hub"}}]
    assert {"name": "data", "mountPath": "/data", "readOnly": True} in container["volumeMounts"]
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "data"}} in made["volumes"]
    assert made["imagePullSecrets"] == [{"name": "registry"}]
    assert (made["priorityClassName"], made["schedulerName"]) == ("batch", "other")
    assert made["serviceAccountName"] == "trainer"


def test_users_labels_never_displace_the_selectors() -> None:
    """A label of ours that a user sets too would take the pod out of its own set."""
    spec = {"podTemplate": {"labels": {"xeontrain.dev/job-uid": "x", "team": "nlp"}}}
    labels = build_pod_template(job(spec=spec), settings=SETTINGS)["metadata"]["labels"]
    assert labels["team"] == "nlp"
    assert labels["xeontrain.dev/job-uid"] != "x"


def test_meshes_stay_out_unless_the_user_lets_them_in() -> None:
    """A proxy beside the trainer breaks collectives and costs the exclusive CPUs, so it must be asked for."""
    made = build_pod_template(job(), settings=SETTINGS)["metadata"]
    assert made["labels"]["sidecar.istio.io/inject"] == "false"
    assert made["annotations"] == {"linkerd.io/inject": "disabled"}
    spec = {
        "podTemplate": {
            "labels": {"sidecar.istio.io/inject": "true"},
            "annotations": {"linkerd.io/inject": "enabled", "note": "x"},
        }
    }
    asked = build_pod_template(job(spec=spec), settings=SETTINGS)["metadata"]
    assert asked["labels"]["sidecar.istio.io/inject"] == "true"
    assert asked["annotations"] == {"linkerd.io/inject": "enabled", "note": "x"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, {"cpu": "1", "memory": "1Gi"}),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}, {"cpu": "2", "memory": "1Gi"}),
        ({"requests": {"cpu": "1", "memory": "1Gi"}}, {"cpu": "1", "memory": "1Gi"}),
    ],
    ids=["limits-alone", "limits-win", "requests-alone"],
)
def test_extra_containers_keep_the_pod_guaranteed(
    resources: dict[str, Any], expected: dict[str, str]
) -> None:
    """One container whose requests differ from its limits would take everybody's exclusive CPUs away."""
    extra = {"name": "logger", "image": "l", "resources": resources}
    made = _pod({"podTemplate": {"containers": [extra]}})["containers"][1]
    assert made["resources"] == {"requests": expected, "limits": expected}
    assert made["securityContext"] == RESTRICTED


def test_security_contexts_of_the_user_are_merged_over_the_restricted_one() -> None:
    """What the user does not name stays restricted."""
    template = {
        "securityContext": {"runAsUser": 2000, "supplementalGroups": [5]},
        "containerSecurityContext": {"readOnlyRootFilesystem": False, "capabilities": {"add": ["SYS_NICE"]}},
    }
    made = _pod({"podTemplate": template})
    assert made["securityContext"]["runAsUser"] == 2000
    assert made["securityContext"]["runAsNonRoot"] is True
    assert made["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": False,
        "capabilities": {"drop": ["ALL"], "add": ["SYS_NICE"]},
    }


def test_default_image_brings_its_own_pull_settings() -> None:
    """The platform team's policy is for its image alone, its Secrets for every pod; a job's own name wins."""
    settings = SETTINGS.model_copy(
        update={"trainer_image_pull_policy": "Never", "trainer_image_pull_secrets": ("ours",)}
    )
    ours = build_pod_template(job(), settings=settings)["spec"]
    assert ours["containers"][0]["imagePullPolicy"] == "Never"
    assert ours["imagePullSecrets"] == [{"name": "ours"}]
    theirs = build_pod_template(job(spec={"image": "mine"}), settings=settings)["spec"]
    assert "imagePullPolicy" not in theirs["containers"][0]
