"""A volume whose claim is gone is emptied and offered again; others are left alone."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.cluster import storage


class FakeKubectl:
    """Answers as kubectl would with one volume, and keeps the patches."""

    def __init__(self, volumes: list[dict[str, Any]]) -> None:
        self.volumes = volumes
        self.patches: list[tuple[str, ...]] = []

    def __call__(self, *arguments: str, check: bool) -> subprocess.CompletedProcess[str]:
        if arguments[0] == "patch":
            self.patches.append(arguments)
            self.volumes.clear()
        return subprocess.CompletedProcess(arguments, 0, stdout=json.dumps({"items": self.volumes}))


def test_volumes_are_of_their_node_and_its_folders(tmp_path: Path) -> None:
    volumes = storage.make_volumes("node-a", parent=tmp_path)
    assert len({volume["metadata"]["name"] for volume in volumes}) == storage.VOLUMES_PER_NODE
    for volume in volumes:
        assert Path(volume["spec"]["local"]["path"]).is_dir()
        term = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]
        assert term["matchExpressions"][0]["values"] == ["node-a"]


def test_only_released_volumes_are_emptied(tmp_path: Path) -> None:
    """Bound keeps its file, Released loses it and gets no claim."""
    bound, free = (storage.volume(node="a", number=n, folder=tmp_path / str(n)) for n in (1, 2))
    for volume, phase in ((bound, "Bound"), (free, "Released")):
        volume["status"] = {"phase": phase}
        folder = Path(volume["spec"]["local"]["path"])
        folder.mkdir()
        (folder / "model").write_text("x")
    kubectl = FakeKubectl([bound, free])
    keeper = storage.VolumeKeeper(kubectl)
    while not kubectl.patches:
        time.sleep(0.05)
    keeper.stop()
    assert (tmp_path / "1" / "model").exists()
    assert list((tmp_path / "2").iterdir()) == []
    assert kubectl.patches[0][2] == "a-2"
    assert json.loads(kubectl.patches[0][4]) == {"spec": {"claimRef": None}}
