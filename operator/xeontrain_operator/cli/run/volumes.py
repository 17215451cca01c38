"""Volumes of a pod as folders of this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from xeontrain_operator.api.v1alpha1 import XeonTrainJob
from xeontrain_operator.builders.launcher import LAUNCHER_VOLUME
from xeontrain_operator.builders.names import STORAGE_VOLUME, claim_name
from xeontrain_operator.builders.volumes import TRAINING_VOLUME
from xeontrain_operator.cli.files import InputError
from xeontrain_operator.cli.run.objects import Content, Objects

JsonDict = dict[str, Any]


@dataclass(frozen=True)
class Folders:
    """Where things lie below the output folder."""

    output: Path
    run: Path
    """Scratch space and logs of this run alone."""

    def claim(self, name: str) -> Path:
        """Return the folder of a claim, which outlives the run as the claim outlives its pods."""
        return self.output / "claims" / name

    def worker(self, worker: int) -> Path:
        """Return the folder of one worker's own things."""
        return self.run / f"worker-{worker}"


def make_volume(volume: JsonDict, *, worker: int, folders: Folders, objects: Objects, field: str) -> Path:
    """Make one volume and return its folder.

    Raises InputError, naming `field`, for kinds of a cluster and for what is no volume of Kubernetes: the
    job's own rules leave that to the API server.
    """
    try:
        return _make_volume(volume, worker=worker, folders=folders, objects=objects, field=field)
    except (AttributeError, KeyError, TypeError):
        raise InputError(
            f"{field}: is not written as Kubernetes has it; see kubectl explain pod.spec.volumes"
        ) from None


def _make_volume(volume: JsonDict, *, worker: int, folders: Folders, objects: Objects, field: str) -> Path:
    kind = next((key for key in volume if key != "name"), "emptyDir")
    source = volume.get(kind) or {}
    if kind == "hostPath":
        return Path(source.get("path", ""))
    if kind == "persistentVolumeClaim":
        return _made(folders.claim(source.get("claimName", "")))
    folder = folders.worker(worker) / "volumes" / str(volume["name"])
    if kind == "emptyDir":
        return _made(folder)
    sources = source.get("sources", ()) if kind == "projected" else [{kind: source}]
    for index, entry in enumerate(sources):
        where = f"{field}.projected.sources[{index}]" if kind == "projected" else field
        _project(entry, folder=_made(folder), objects=objects, field=where)
    return folder


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _project(entry: JsonDict, *, folder: Path, objects: Objects, field: str) -> None:
    kind = next(iter(entry), "")
    if kind not in _PROJECTED:
        raise InputError(
            f"{field}: a volume of kind {kind or 'nothing'} exists only in a cluster; here work configMap, "
            "secret, projected, emptyDir, persistentVolumeClaim and hostPath"
        )
    object_kind, name_key = _PROJECTED[kind]
    source = entry[kind] or {}
    name = source.get(name_key) or source.get("name", "")
    optional = bool(source.get("optional"))
    content = objects.content(object_kind, name=name, optional=optional, field=f"{field}.{kind}")
    for path, data in _chosen(
        content or {}, items=source.get("items"), optional=optional, field=f"{field}.{kind}"
    ):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


# The machine has its own of these; the training document is written with its paths changed.
_NATIVE: Final = ("/tmp", "/dev/shm")
_UNUSED: Final = (TRAINING_VOLUME, LAUNCHER_VOLUME)
_PROJECTED: Final = {"configMap": ("ConfigMap", "name"), "secret": ("Secret", "secretName")}


def _chosen(content: Content, *, items: Any, optional: bool, field: str) -> list[tuple[str, bytes]]:
    """All keys under their own names, or those of `items` under their paths."""
    if not items:
        return [(_inside(key, field=field), data) for key, data in content.items()]
    chosen = []
    for item in items:
        if item["key"] in content:
            chosen.append((_inside(item["path"], field=field), content[item["key"]]))
        elif not optional:
            raise InputError(
                f"{field}.items: there is no key {item['key']}; there are {', '.join(sorted(content))}"
            )
    return chosen


def _inside(path: str, *, field: str) -> str:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts:
        raise InputError(f"{field}: the path {path} leaves the volume; write a relative path without ..")
    return path


class Mounts:
    """Paths in the container -> paths of this machine; of nested mounts the innermost counts."""

    def __init__(self, mounts: dict[str, Path]) -> None:
        self.by_path = {mount.rstrip("/") or "/": target for mount, target in mounts.items()}

    def local(self, path: str, *, escape: Callable[[str], str] = str) -> str:
        """Return the path on this machine; one under no mount stays as it is.

        `escape` is applied to the folder that takes the place of the mount, for paths that are patterns.
        """
        best = max((mount for mount in self.by_path if _below(path, mount)), key=len, default=None)
        if best is None:
            return path
        return escape(str(self.by_path[best])) + path[len(best.rstrip("/")) :]


def _below(path: str, mount: str) -> bool:
    return path == mount or path.startswith(mount.rstrip("/") + "/")


def make_mounts(
    job: XeonTrainJob, pod: JsonDict, *, worker: int, folders: Folders, objects: Objects, source: str
) -> Mounts:
    """Make all volumes of the pod's template for one worker, and return where its mounts lead.

    Raises InputError.
    """
    names = {volume["name"]: volume for volume in pod["volumes"]}
    made: dict[str, Path] = {}
    targets: dict[str, Path] = {}
    for mount in pod["containers"][0]["volumeMounts"]:
        if mount["mountPath"] in _NATIVE or mount["name"] in _UNUSED:
            continue
        name = mount["name"]
        if name not in made:
            # A claim template's volume is in no list: the StatefulSet controller would add it.
            volume = names.get(name) or _own_claim(job, worker=worker)
            field = f"{source}: spec.volumes ({name})"
            made[name] = make_volume(volume, worker=worker, folders=folders, objects=objects, field=field)
        target = made[name] / mount.get("subPath", "")
        if "subPath" in mount and not target.exists():
            target.mkdir(parents=True)
        targets[mount["mountPath"]] = target
    return Mounts(targets)


def _own_claim(job: XeonTrainJob, *, worker: int) -> JsonDict:
    name = claim_name(job.metadata, worker=worker)
    return {"name": STORAGE_VOLUME, "persistentVolumeClaim": {"claimName": name}}
