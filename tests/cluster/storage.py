"""Volumes of the nodes: static `local` PersistentVolumes under a default StorageClass, used again when free.

Nothing provisions them: a thread of the harness empties a volume whose claim is gone and offers it again.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster.api import Api
from tests.cluster.errors import ClusterError

STORAGE_CLASS = "local"
VOLUMES_PER_NODE = 8
VOLUME_SIZE = "10Gi"
PERIOD_SECONDS = 2

PATH = "/api/v1/persistentvolumes"


def storage_class() -> dict[str, Any]:
    """Returns the default StorageClass; a claim is bound once its pod has a node."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": STORAGE_CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Retain",
    }


def volume(*, node: str, number: int, folder: Path) -> dict[str, Any]:
    """Returns one PersistentVolume: a folder of a node. Unlike hostPath, `local` honours fsGroup."""
    match = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{node}-{number}"},
        "spec": {
            "capacity": {"storage": VOLUME_SIZE},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": STORAGE_CLASS,
            "local": {"path": str(folder)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [match]}]}},
        },
    }


def make_volumes(node: str, *, parent: Path) -> list[dict[str, Any]]:
    """Makes a node's folders and returns their volumes."""
    volumes = []
    for number in range(VOLUMES_PER_NODE):
        folder = parent / f"{number}"
        folder.mkdir(parents=True)
        volumes.append(volume(node=node, number=number, folder=folder))
    return volumes


def released(volumes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the volumes whose claim is gone."""
    return [one for one in volumes if one.get("status", {}).get("phase") == "Released"]


class VolumeKeeper:
    """Empties released volumes and offers them again, until it is stopped."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="volume-keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Returns when the thread has ended."""
        self._stop.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._stop.wait(PERIOD_SECONDS):
            # A server that is busy or about to end: the next round does it.
            with contextlib.suppress(ClusterError):
                self._offer_released()

    def _offer_released(self) -> None:
        for one in released(self._api.get(PATH)["items"]):
            empty(Path(one["spec"]["local"]["path"]))
            self._api.merge_patch(f"{PATH}/{one['metadata']['name']}", {"spec": {"claimRef": None}})


def empty(folder: Path) -> None:
    """Removes all that a folder holds, and the group and mode that a pod's fsGroup gave it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
