"""An archive has one image whole but for what its reader has; a copy of a store shares what is read-only."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import image_store
from tests.cluster.buildah import REFERENCE_NAME


def put(layout: Path, content: bytes) -> dict[str, Any]:
    """Writes a blob and returns its descriptor."""
    digest = hashlib.sha256(content).hexdigest()
    folder = layout / "blobs" / "sha256"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / digest).write_bytes(content)
    return {"digest": f"sha256:{digest}", "size": len(content)}


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """An OCI layout with two images that share a layer."""
    shared = put(tmp_path, b"shared layer")
    manifests = []
    for name in ("first", "second"):
        manifest = {
            "config": put(tmp_path, name.encode()),
            "layers": [shared, put(tmp_path, b"own " + name.encode())],
        }
        entry = put(tmp_path, json.dumps(manifest).encode())
        manifests.append({**entry, "annotations": {REFERENCE_NAME: f"localhost/{name}:1"}})
    (tmp_path / "index.json").write_text(json.dumps({"manifests": manifests}))
    return tmp_path


def archive(layout: Path, *, leave_out: list[str]) -> dict[str, bytes]:
    """Returns the files of an archive of the first image."""
    out = io.BytesIO()
    image_store.write_archive(out, layout=layout, name="localhost/first:1", leave_out=leave_out)
    out.seek(0)
    with tarfile.open(fileobj=out) as read:
        return {one.name: read.extractfile(one).read() for one in read}  # type: ignore[union-attr]


def test_an_archive_has_one_image_and_its_name(layout: Path) -> None:
    files = archive(layout, leave_out=[])
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"][image_store.IMAGE_NAME] == "localhost/first:1"
    blobs = [content for name, content in files.items() if name.startswith("blobs/")]
    assert b"shared layer" in blobs
    assert b"own first" in blobs
    assert b"own second" not in blobs


def test_what_the_reader_has_is_left_out(layout: Path) -> None:
    shared = "sha256:" + hashlib.sha256(b"shared layer").hexdigest()
    whole, rest = archive(layout, leave_out=[]), archive(layout, leave_out=[shared])
    assert set(whole) - set(rest) == {"blobs/" + shared.replace(":", "/")}
