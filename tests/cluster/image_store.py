"""One containerd store with every image unpacked once, of which each node gets a copy in no time.

A node's containerd must have a root folder of its own, but the layers below its containers are never
written to. So a copy is: the databases, links to the blobs, and for every unpacked layer a symbolic link to
the one in the template. Importing a gigabyte for three nodes is thus done once a machine, and a node that was
killed leaves nothing in the store that the next one starts from.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
import tarfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.cluster import containerd
from tests.cluster.binaries import Binaries
from tests.cluster.buildah import REFERENCE_NAME
from tests.cluster.errors import ComponentFailed
from tests.cluster.go_build import say
from tests.cluster.namespaces import Namespaces
from tests.cluster.processes import Components

SNAPSHOTTER = Path("io.containerd.snapshotter.v1.overlayfs")
METADATA = Path("io.containerd.metadata.v1.bolt")
CONTENT = Path("io.containerd.content.v1.content")
IMAGE_NAME = "io.containerd.image.name"
START_SECONDS = 60


class ImageStore:
    """The template store in a folder of the cache, on the file system that nodes are copied to."""

    def __init__(self, folder: Path, *, binaries: Binaries, logs: Path) -> None:
        self._folder = folder
        self._root = folder / "root"
        self._binaries = binaries
        self._logs = logs
        for one in (self._root, logs):
            one.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keeps other runs from removing layers that nodes of this run are built on."""
        with (self._folder / ".in-use").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH)
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._folder / ".lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def load(self, layout: Path, *, names: Iterable[str]) -> None:
        """Imports and unpacks the images of an OCI layout that the template does not have.

        Images that no run uses any more and that are not named are removed at the same time.
        """
        wanted = list(names)
        with self._locked():
            missing = [name for name in wanted if name not in self._known()]
            if missing:
                self._import(layout, names=missing, keep=wanted)

    def copy_to(self, root: Path) -> None:
        """Makes a containerd root folder that has every image of the template."""
        with self._locked():
            _copy_databases(self._root, root)
            _link_blobs(self._root / CONTENT / "blobs", root / CONTENT / "blobs")
            _link_layers(self._root / SNAPSHOTTER / "snapshots", root / SNAPSHOTTER / "snapshots")

    def _known(self) -> list[str]:
        path = self._folder / "images.json"
        return list(json.loads(path.read_text())) if path.exists() else []

    def _import(self, layout: Path, *, names: list[str], keep: list[str]) -> None:
        namespaces = Namespaces.start()
        components = Components(namespaces, logs=self._logs)
        try:
            ctr = self._start_daemon(namespaces, components)
            for name in names:
                self._import_one(ctr, layout, name=name)
            self._prune(ctr, keep=keep)
            (self._folder / "images.json").write_text(json.dumps(ctr.images()))
        finally:
            namespaces.stop()
            components.bury()

    def _start_daemon(self, namespaces: Namespaces, components: Components) -> containerd.Ctr:
        config = self._folder / "containerd.toml"
        config.write_text(containerd.store_config(root=self._root))
        components.start("image-store", [self._binaries["containerd"], "--config", str(config)])
        ctr = containerd.Ctr(self._binaries["ctr"], namespaces=namespaces, name=containerd.STORE_NAME)
        components.wait_until(
            ctr.answers, what="containerd", component="image-store", timeout_seconds=START_SECONDS
        )
        return ctr

    def _import_one(self, ctr: containerd.Ctr, layout: Path, *, name: str) -> None:
        started = time.monotonic()
        present = ctr.blobs()
        log = self._logs / "image-import.log"
        with log.open("w") as out, ctr.importing(out) as process:
            assert process.stdin is not None
            try:
                write_archive(process.stdin.buffer, layout=layout, name=name, leave_out=present)  # type: ignore[attr-defined]
            except BrokenPipeError:
                say(f"ctr stopped reading {name}")
            process.stdin.close()
            code = process.wait()
        if code != 0:
            raise ComponentFailed(f"importing {name} failed ({code})", log=log)
        say(f"imported {name} in {time.monotonic() - started:.0f} s")

    def _prune(self, ctr: containerd.Ctr, *, keep: list[str]) -> None:
        with (self._folder / ".in-use").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            ctr.remove([name for name in ctr.images() if name not in keep])


def write_archive(out: IO[bytes], *, layout: Path, name: str, leave_out: Iterable[str]) -> None:
    """Writes one image of an OCI layout as a tar stream, without the blobs that the reader has.

    leave_out: digests (`sha256:...`). Layers that images share are so read and written once.
    """
    index = json.loads((layout / "index.json").read_text())
    entry = next(one for one in index["manifests"] if one["annotations"].get(REFERENCE_NAME) == name)
    entry["annotations"] = {IMAGE_NAME: name, REFERENCE_NAME: name}
    manifest = json.loads(_blob(layout, entry["digest"]).read_text())
    digests = [entry["digest"], manifest["config"]["digest"], *(one["digest"] for one in manifest["layers"])]
    known = set(leave_out)
    with tarfile.open(fileobj=out, mode="w|") as archive:
        _add_text(archive, "oci-layout", {"imageLayoutVersion": "1.0.0"})
        _add_text(archive, "index.json", {"schemaVersion": 2, "manifests": [entry]})
        for digest in dict.fromkeys(digests):
            if digest not in known:
                archive.add(_blob(layout, digest), arcname=f"blobs/{digest.replace(':', '/')}")


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / digest.replace(":", "/")


def _add_text(archive: tarfile.TarFile, name: str, content: dict[str, Any]) -> None:
    data = json.dumps(content).encode()
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def _copy_databases(source: Path, target: Path) -> None:
    for name in (METADATA / "meta.db", SNAPSHOTTER / "metadata.db"):
        (target / name).parent.mkdir(parents=True)
        shutil.copy2(source / name, target / name)


def _link_blobs(source: Path, target: Path) -> None:
    for path in source.rglob("*"):
        if path.is_file():
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, copy)


def _link_layers(source: Path, target: Path) -> None:
    target.mkdir(mode=0o700)
    for path in source.iterdir():
        (target / path.name).symlink_to(path)
