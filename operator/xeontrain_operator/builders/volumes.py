"""Volumes of a worker's pod: scratch space, shared memory, the training document and storage."""

from __future__ import annotations

from typing import Any

from xeontrain_operator.api.v1alpha1 import Storage, XeonTrainJob, memory_bytes
from xeontrain_operator.builders.labels import child_labels, owner_reference
from xeontrain_operator.builders.launcher import launcher_mounts, launcher_volumes
from xeontrain_operator.builders.names import STORAGE_VOLUME
from xeontrain_operator.constants import STATE_DIR, STORAGE_DIR, TRAINING_DIR

STATE_VOLUME = "xeontrain-state"
SHARED_MEMORY_VOLUME = "xeontrain-shm"
TMP_VOLUME = "xeontrain-tmp"
TRAINING_VOLUME = "xeontrain-training"


def shared_memory_bytes(job: XeonTrainJob) -> int:
    """Size of /dev/shm: what the job says, else half of the memory that it is part of."""
    resources = job.spec.resources
    if resources.shared_memory is not None:
        return memory_bytes(resources.shared_memory)
    return memory_bytes(resources.memory) // 2


def build_volumes(job: XeonTrainJob) -> list[dict[str, Any]]:
    """All volumes but a claim template's, which the StatefulSet controller adds to each pod itself."""
    shared = {"medium": "Memory", "sizeLimit": str(shared_memory_bytes(job))}
    volumes: list[dict[str, Any]] = [
        {"name": STATE_VOLUME, "emptyDir": {}},
        {"name": TMP_VOLUME, "emptyDir": {}},
        {"name": SHARED_MEMORY_VOLUME, "emptyDir": shared},
        *launcher_volumes(job),
    ]
    if job.spec.training is not None:
        volumes.append({"name": TRAINING_VOLUME, "configMap": {"name": job.metadata.name}})
    if job.spec.storage is not None and job.spec.storage.claim is not None:
        source = {"claimName": job.spec.storage.claim}
        volumes.append({"name": STORAGE_VOLUME, "persistentVolumeClaim": source})
    return [*volumes, *job.spec.volumes]


def build_volume_mounts(job: XeonTrainJob) -> list[dict[str, Any]]:
    """Mounts of the trainer container. A /tmp of the user's takes the place of ours."""
    theirs = [mount.to_dict() for mount in job.spec.volume_mounts]
    taken = {mount["mountPath"].rstrip("/") for mount in theirs}
    ours: list[dict[str, Any]] = [
        {"name": STATE_VOLUME, "mountPath": STATE_DIR},
        {"name": TMP_VOLUME, "mountPath": "/tmp"},
        {"name": SHARED_MEMORY_VOLUME, "mountPath": "/dev/shm"},
        *launcher_mounts(job),
    ]
    if job.spec.training is not None:
        ours.append({"name": TRAINING_VOLUME, "mountPath": TRAINING_DIR, "readOnly": True})
    if job.spec.storage is not None:
        ours.append(_storage_mount(job.spec.storage))
    return [*(mount for mount in ours if mount["mountPath"] not in taken), *theirs]


def _storage_mount(storage: Storage) -> dict[str, Any]:
    mount = {"name": STORAGE_VOLUME, "mountPath": STORAGE_DIR}
    return mount if storage.sub_path is None else {**mount, "subPath": storage.sub_path}


def build_claim_templates(job: XeonTrainJob) -> list[dict[str, Any]]:
    """The claim that each worker gets where `storage.size` is given."""
    storage = job.spec.storage
    if storage is None or storage.size is None:
        return []
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": str(storage.size)}},
    }
    if storage.storage_class is not None:
        spec["storageClassName"] = storage.storage_class
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": _claim_metadata(job, retain=storage.retain),
            "spec": spec,
        }
    ]


def _claim_metadata(job: XeonTrainJob, *, retain: str) -> dict[str, Any]:
    """Owned by the job, not by its set, where it is not to outlive the job: the set goes at the job's end,
    and the model must stay as long as the job does. The StatefulSet controller copies the reference."""
    metadata: dict[str, Any] = {"name": STORAGE_VOLUME, "labels": child_labels(job.metadata)}
    if retain == "Delete":
        # Not as its controller: that is a claim's StatefulSet, where it has one.
        metadata["ownerReferences"] = [{**owner_reference(job.metadata), "controller": False}]
    return metadata
