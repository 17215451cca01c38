"""The environment of the trainer container: docs/contract.md, filled in for one job."""

from __future__ import annotations

from typing import Any

from xeontrain_operator import constants as c
from xeontrain_operator.api.v1alpha1 import XeonTrainJob
from xeontrain_operator.builders.launcher import is_injected
from xeontrain_operator.builders.merge import merge_named
from xeontrain_operator.builders.names import coordinator_host, job_folder
from xeontrain_operator.settings import Settings

EnvList = list[dict[str, Any]]


def build_env(job: XeonTrainJob, *, settings: Settings, failures_counted: int = 0) -> EnvList:
    """Ours, then the user's; the user's win and no name stands twice.

    Names that the launcher owns never come from the user: the resource refuses them.
    """
    ours = [
        *_identity(job),
        *_gang(job, settings=settings, failures_counted=failures_counted),
        *_paths(job),
        *_libraries(job),
    ]
    return merge_named(ours, [variable.to_dict() for variable in job.spec.env])


def _value(name: str, value: object) -> dict[str, Any]:
    return {"name": name, "value": str(value)}


def _from_pod(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _limit(name: str, resource: str, *, divisor: str) -> dict[str, Any]:
    """The container's own limit."""
    reference = {"resource": f"limits.{resource}", "divisor": divisor}
    return {"name": name, "valueFrom": {"resourceFieldRef": reference}}


def _identity(job: XeonTrainJob) -> EnvList:
    return [
        _value(c.ENV_CONTRACT_VERSION, c.CONTRACT_VERSION),
        _value(c.ENV_JOB_NAME, job.metadata.name),
        _value(c.ENV_JOB_NAMESPACE, job.metadata.namespace),
        _value(c.ENV_JOB_UID, job.metadata.uid),
        _from_pod(c.ENV_POD_NAME, "metadata.name"),
        _from_pod(c.ENV_POD_UID, "metadata.uid"),
        _from_pod(c.ENV_POD_IP, "status.podIP"),
        _from_pod(c.ENV_NODE_NAME, "spec.nodeName"),
        _from_pod(c.ENV_WORKER, f"metadata.labels['{c.LABEL_POD_INDEX}']"),
    ]


def _gang(job: XeonTrainJob, *, settings: Settings, failures_counted: int) -> EnvList:
    spec, network = job.spec, job.spec.distributed
    host = coordinator_host(job.metadata, cluster_domain=settings.cluster_domain)
    env = [
        _value(c.ENV_WORKERS, spec.workers),
        _value(c.ENV_RANKS_PER_WORKER, spec.ranks_per_worker),
        _value(c.ENV_COORDINATOR, host),
        _value(c.ENV_LAUNCHER_PORT, c.LAUNCHER_PORT),
        _value(c.ENV_MASTER_PORT, network.port),
        _value(c.ENV_RENDEZVOUS_TIMEOUT_SECONDS, network.timeout_seconds),
        _value(c.ENV_BACKEND, network.backend),
        _value(c.ENV_CCL_WORKERS_PER_RANK, network.ccl.workers_per_rank),
        # What the container really got: an admission policy may have changed what the job asks for.
        _limit(c.ENV_CPU_LIMIT_MILLIS, "cpu", divisor="1m"),
        _value(c.ENV_PINNING, spec.pinning),
        _value(c.ENV_BACKOFF_LIMIT, spec.run_policy.backoff_limit),
        _value(c.ENV_FAILURES_COUNTED, failures_counted),
        _value(c.ENV_GRACE_PERIOD_SECONDS, spec.run_policy.grace_period_seconds),
    ]
    if spec.training is not None:
        env.append(_value(c.ENV_GLOBAL_BATCH_SIZE, spec.training.hyperparameters.batch_size))
    if network.interface is not None:
        env.append(_value(c.ENV_INTERFACE, network.interface))
    return env


def _paths(job: XeonTrainJob) -> EnvList:
    env = [
        _value(c.ENV_STATE_DIR, c.STATE_DIR),
        _value(c.ENV_TERMINATION_LOG, c.TERMINATION_LOG),
        _value(c.ENV_TERMINATION_BYTES, termination_bytes(job)),
        # The root file system is read-only and the user has no entry in the image's passwd file.
        _value("HOME", "/tmp"),
    ]
    if job.spec.storage is not None:
        env.append(_value(c.ENV_JOB_DIR, f"{c.STORAGE_DIR}/{job_folder(job.metadata)}"))
    if job.spec.training is not None:
        env.append(_value(c.ENV_TRAINING_FILE, c.TRAINING_FILE))
    return env


def _libraries(job: XeonTrainJob) -> EnvList:
    """What oneCCL, libfabric and torch need to hear and no knowledge of the machine is needed for."""
    return [
        _value("CCL_PROCESS_LAUNCHER", "none"),
        _value("CCL_ATL_TRANSPORT", "ofi"),
        _value("FI_PROVIDER", job.spec.distributed.ccl.provider),
        _value("TORCHELASTIC_RUN_ID", job.metadata.uid),
        _value("TOKENIZERS_PARALLELISM", "false"),
        # What `accelerate launch --cpu` sets: without it accelerate, and Hugging Face's Trainer, look for
        # GPUs to train together on, find none, and train once in each rank.
        _value("ACCELERATE_USE_CPU", "true"),
        # Or `kubectl logs` would show what a script prints only in blocks of 8 KiB, and at its end.
        _value("PYTHONUNBUFFERED", 1),
    ]


def termination_bytes(job: XeonTrainJob) -> int:
    """How long a termination message may be: the kubelet cuts those of a pod to 12 KiB in all, evenly over
    all its containers, initial ones too."""
    containers = 1 + is_injected(job) + len(job.spec.pod_template.containers)
    return min(c.TERMINATION_BYTES, 12288 // containers)
