"""Volumes become folders with what a kubelet would have put there."""

from __future__ import annotations

import base64
import glob
import gzip
from pathlib import Path
from typing import Any

import pytest
from xeontrain_operator.api.v1alpha1 import XeonTrainJob, parse_job
from xeontrain_operator.builders.pod import build_pod_template
from xeontrain_operator.cli.files import InputError
from xeontrain_operator.cli.run.objects import Objects
from xeontrain_operator.cli.run.volumes import Folders, Mounts, make_mounts
from xeontrain_operator.settings import Settings

from tests.contract.cases.edits import TRAINING, edited

PACKED = gzip.compress(b"text,label\n")
DOCUMENTS = [
    {
        "kind": "ConfigMap",
        "metadata": {"name": "part-0"},
        "binaryData": {"a.csv.gz": base64.b64encode(PACKED).decode()},
    },
    {"kind": "ConfigMap", "metadata": {"name": "part-1"}, "data": {"b.csv": "text,label\n", "notes": "é"}},
    {
        "kind": "Secret",
        "metadata": {"name": "key"},
        "data": {"token": "c2VjcmV0"},
        "stringData": {"user": "me"},
    },
]


def _job(volume: dict[str, Any], **mount: Any) -> XeonTrainJob:
    edits = {
        "metadata.uid": "0f5c1a52-0000-4000-8000-000000000000",
        "spec.volumes": [{"name": "data", **volume}],
        "spec.volumeMounts": [{"name": "data", "mountPath": "/data", **mount}],
    }
    return parse_job(edited(TRAINING, edits))


def _mounts(job: XeonTrainJob, folder: Path, *, worker: int = 0) -> Mounts:
    pod = build_pod_template(job, settings=Settings())["spec"]
    folders = Folders(output=folder, run=folder / "runs" / "1")
    objects = Objects(DOCUMENTS, source="job.yaml")
    return make_mounts(job, pod, worker=worker, folders=folders, objects=objects, source="job.yaml")


def _files(folder: str) -> dict[str, bytes]:
    root = Path(folder)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("volume", "files"),
    [
        ({"configMap": {"name": "part-0"}}, {"a.csv.gz": PACKED}),
        ({"configMap": {"name": "part-1"}}, {"b.csv": b"text,label\n", "notes": "é".encode()}),
        (
            {"configMap": {"name": "part-1", "items": [{"key": "b.csv", "path": "x/y.csv"}]}},
            {"x/y.csv": b"text,label\n"},
        ),
        ({"secret": {"secretName": "key"}}, {"token": b"secret", "user": b"me"}),
        (
            {
                "projected": {
                    "sources": [
                        {"configMap": {"name": "part-0"}},
                        {"secret": {"name": "key", "items": [{"key": "user", "path": "u"}]}},
                    ]
                }
            },
            {"a.csv.gz": PACKED, "u": b"me"},
        ),
        ({"configMap": {"name": "none", "optional": True}}, {}),
        ({"emptyDir": {}}, {}),
        ({}, {}),
    ],
    ids=["binary", "text", "items", "secret", "projected", "optional", "emptyDir", "no-source"],
)
def test_content(tmp_path: Path, volume: dict[str, Any], files: dict[str, bytes]) -> None:
    """Keys are files, items choose and rename them, projected volumes hold several objects."""
    assert _files(_mounts(_job(volume), tmp_path).local("/data")) == files


@pytest.mark.parametrize(
    ("volume", "says"),
    [
        ({"configMap": {"name": "none"}}, "ConfigMap none is not in the file"),
        (
            {"configMap": {"name": "part-1", "items": [{"key": "c", "path": "c"}]}},
            "there is no key c; there are b.csv, notes",
        ),
        ({"configMap": {"name": "part-1", "items": [{"key": "notes", "path": "../n"}]}}, "leaves the volume"),
        ({"configMap": {"name": "part-1", "items": [{"key": "notes", "path": "/n"}]}}, "leaves the volume"),
        ({"nfs": {"server": "s", "path": "/x"}}, "of kind nfs exists only in a cluster"),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            "of kind serviceAccountToken exists only",
        ),
        ({"configMap": 5}, "not written as Kubernetes has it"),
        ({"configMap": {"name": "part-1", "items": [{"path": "a"}]}}, "not written as Kubernetes has it"),
        ({"projected": {"sources": 3}}, "not written as Kubernetes has it"),
    ],
    ids=["object", "key", "up", "absolute", "kind", "projected-kind", "number", "item", "sources"],
)
def test_refusals(tmp_path: Path, volume: dict[str, Any], says: str) -> None:
    """What only a cluster has is named, with file and field."""
    with pytest.raises(InputError, match=r"job\.yaml: spec\.volumes") as caught:
        _mounts(_job(volume), tmp_path)
    assert says in str(caught.value)
    assert str(caught.value).count("job.yaml") == 1


def test_claims_are_shared_and_empty_dirs_are_not(tmp_path: Path) -> None:
    """Workers meet in a claim, as they would with ReadWriteMany; scratch space is each one's own."""
    claim, scratch = {"persistentVolumeClaim": {"claimName": "c"}}, {"emptyDir": {}}
    both = [_mounts(_job(claim), tmp_path, worker=n).local("/data") for n in (0, 1)]
    assert both == [str(tmp_path / "claims" / "c")] * 2
    own = [_mounts(_job(scratch), tmp_path, worker=n).local("/data") for n in (0, 1)]
    assert own[0] != own[1]


def test_host_path_is_as_it_is(tmp_path: Path) -> None:
    """This machine is the host."""
    assert _mounts(_job({"hostPath": {"path": "/srv/data"}}), tmp_path).local("/data/x") == "/srv/data/x"


def test_sub_path(tmp_path: Path) -> None:
    """A sub-path is made where it is missing, and may be a file."""
    local = _mounts(_job({"emptyDir": {}}, subPath="a/b"), tmp_path).local("/data")
    assert Path(local).is_dir()
    assert local.endswith("volumes/data/a/b")
    file = _mounts(_job({"configMap": {"name": "part-1"}}, subPath="notes"), tmp_path).local("/data")
    assert Path(file).read_text(encoding="utf-8") == "é"


def test_paths_are_mapped_by_the_innermost_mount() -> None:
    """Paths under no mount stay; a name that only begins like a mount is no path under it."""
    mounts = Mounts({"/data": Path("/o/[1]"), "/data/deep/": Path("/p")})
    assert mounts.local("/data/x.csv") == "/o/[1]/x.csv"
    assert mounts.local("/data") == "/o/[1]"
    assert mounts.local("/data/deep/x") == "/p/x"
    assert mounts.local("/database/x") == "/database/x"
    assert mounts.local("data/x") == "data/x"
    assert mounts.local("/data/*.csv", escape=glob.escape) == "/o/[[]1]/*.csv"


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": 1}}, "data.a: is no string"),
        (
            {"kind": "ConfigMap", "metadata": {"name": "x"}, "binaryData": {"a": "%"}},
            "binaryData.a: is not base64",
        ),
        ({"kind": "Secret", "metadata": {"name": "x"}, "data": {"a": "%"}}, "data.a: is not base64"),
        ({"kind": "Secret", "metadata": {"name": "x"}, "data": ["a"]}, "data: is no mapping"),
    ],
    ids=["text", "binary", "secret", "list"],
)
def test_broken_objects(document: dict[str, Any], says: str) -> None:
    """An object that the API server would refuse is refused here too."""
    with pytest.raises(InputError) as caught:
        Objects([document], source="job.yaml").content(document["kind"], name="x", field="f")
    assert says in str(caught.value)
