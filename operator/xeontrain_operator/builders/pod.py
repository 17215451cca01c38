"""The pod template: one trainer container whose process 1 is the launcher."""

from __future__ import annotations

from typing import Any

from xeontrain_operator.api.v1alpha1 import XeonTrainJob
from xeontrain_operator.builders.env import build_env
from xeontrain_operator.builders.labels import child_labels
from xeontrain_operator.builders.launcher import init_containers, launcher_command
from xeontrain_operator.builders.merge import merge_named
from xeontrain_operator.builders.placement import choose_nodes
from xeontrain_operator.builders.security import (
    extra_security_context,
    pod_security_context,
    trainer_security_context,
)
from xeontrain_operator.builders.volumes import build_volume_mounts, build_volumes
from xeontrain_operator.constants import CONTAINER_NAME, LAUNCHER_PORT, PORT_NAME, TERMINATION_LOG
from xeontrain_operator.settings import Settings

TRAINING_COMMAND = ("python3", "-m", "xeontrain_trainer.train")
# A mesh's proxy breaks the collectives between ranks, and its requests cost the pod its exclusive CPUs. Istio
# reads the label, Linkerd the annotation; `podTemplate` may say otherwise.
NO_MESH_LABELS = {"sidecar.istio.io/inject": "false"}
NO_MESH_ANNOTATIONS = {"linkerd.io/inject": "disabled"}


def build_pod_template(job: XeonTrainJob, *, settings: Settings, failures_counted: int = 0) -> dict[str, Any]:
    """Template of all workers' pods. Guaranteed by construction: every container's requests equal its
    limits, without which the kubelet grants no CPUs of one's own."""
    extras = job.spec.pod_template
    metadata = {
        "labels": {**NO_MESH_LABELS, **extras.labels, **child_labels(job.metadata)},
        "annotations": {**NO_MESH_ANNOTATIONS, **extras.annotations},
    }
    trainer = build_trainer_container(job, settings=settings, failures_counted=failures_counted)
    initial = init_containers(job, settings=settings)
    spec = {
        **({"initContainers": initial} if initial else {}),
        "containers": [trainer, *(_extra_container(container) for container in extras.containers)],
        "volumes": build_volumes(job),
        "securityContext": pod_security_context(job),
        "terminationGracePeriodSeconds": job.spec.run_policy.grace_period_seconds,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **_scheduling(job, settings=settings),
        **_accounts(job, settings=settings),
    }
    return {"metadata": metadata, "spec": spec}


def resolve_image(job: XeonTrainJob, *, settings: Settings) -> str:
    """The job's image: its own, or the operator's default of this moment."""
    return job.spec.image or settings.trainer_image


def build_trainer_container(
    job: XeonTrainJob, *, settings: Settings, failures_counted: int = 0
) -> dict[str, Any]:
    """The trainer container. No liveness probe: the launcher shares its CPUs with the ranks, and a probe
    that starves would kill a healthy run."""
    quantities = {"cpu": str(job.spec.resources.cpu), "memory": str(job.spec.resources.memory)}
    container: dict[str, Any] = {
        "name": CONTAINER_NAME,
        "image": resolve_image(job, settings=settings),
        "command": [*launcher_command(job), *user_command(job)],
        "env": build_env(job, settings=settings, failures_counted=failures_counted),
        "ports": [{"name": PORT_NAME, "containerPort": LAUNCHER_PORT, "protocol": "TCP"}],
        "resources": {"requests": quantities, "limits": dict(quantities)},
        "volumeMounts": build_volume_mounts(job),
        "securityContext": trainer_security_context(job),
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": PORT_NAME},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "File",
    }
    pull_policy = _pull_policy(job, settings=settings)
    optional = {
        "imagePullPolicy": pull_policy,
        "envFrom": [source.to_dict() for source in job.spec.env_from],
        "workingDir": job.spec.working_dir,
    }
    return container | {key: value for key, value in optional.items() if value}


def user_command(job: XeonTrainJob) -> list[str]:
    """What each rank runs: the job's command and arguments, or the built-in training."""
    if job.spec.command is None:
        return list(TRAINING_COMMAND)
    return [*job.spec.command, *(job.spec.args or ())]


def _pull_policy(job: XeonTrainJob, *, settings: Settings) -> str | None:
    if job.spec.image_pull_policy is not None:
        return job.spec.image_pull_policy
    return settings.trainer_image_pull_policy if job.spec.image is None else None


def _extra_container(container: dict[str, Any]) -> dict[str, Any]:
    asked = container.get("resources") or {}
    quantities = {**(asked.get("requests") or {}), **(asked.get("limits") or {})}
    return {
        **container,
        "resources": {**asked, "requests": quantities, "limits": dict(quantities)},
        "securityContext": extra_security_context(container),
    }


def _scheduling(job: XeonTrainJob, *, settings: Settings) -> dict[str, Any]:
    nodes, placement = choose_nodes(job, settings=settings), job.spec.placement
    parts = {
        "nodeSelector": nodes.node_selector,
        "affinity": nodes.affinity,
        "tolerations": nodes.tolerations,
        "priorityClassName": placement.priority_class_name,
        "schedulerName": placement.scheduler_name,
    }
    return {key: value for key, value in parts.items() if value}


def _accounts(job: XeonTrainJob, *, settings: Settings) -> dict[str, Any]:
    of_operator = [{"name": name} for name in settings.trainer_image_pull_secrets]
    secrets = merge_named(of_operator, [secret.to_dict() for secret in job.spec.image_pull_secrets])
    parts = {
        "serviceAccountName": job.spec.pod_template.service_account_name,
        "imagePullSecrets": secrets,
    }
    return {key: value for key, value in parts.items() if value}
