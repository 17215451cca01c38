"""A volume whose claim is gone is emptied and offered again; others are left alone."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.cluster import credentials, storage
from tests.cluster.api import Api


class Server(BaseHTTPRequestHandler):
    """Answers as an API server would that has `volumes`, and keeps the patches."""

    volumes: ClassVar[list[dict[str, Any]]] = []
    patches: ClassVar[dict[str, Any]] = {}

    def do_GET(self) -> None:
        self._answer({"items": self.volumes})

    def do_PATCH(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.patches[self.path] = json.loads(body)
        self.volumes.clear()
        self._answer({})

    def _answer(self, content: Any) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Keeps the test's output clean."""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """A client of a server on loopback, without TLS."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        credentials.make_serving_certificate(tmp_path, names=["IP:127.0.0.1"])
        yield Api(f"http://127.0.0.1:{server.server_port}", token="t", ca_file=tmp_path / "apiserver.crt")
        server.shutdown()


def test_volumes_are_of_their_node_and_its_folders(tmp_path: Path) -> None:
    volumes = storage.make_volumes("node-a", parent=tmp_path)
    assert len({volume["metadata"]["name"] for volume in volumes}) == storage.VOLUMES_PER_NODE
    for volume in volumes:
        assert Path(volume["spec"]["local"]["path"]).is_dir()
        term = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]
        assert term["matchExpressions"][0]["values"] == ["node-a"]


def test_only_released_volumes_are_emptied(tmp_path: Path, api: Api) -> None:
    """Bound keeps its file, Released loses it and gets no claim."""
    bound, free = (storage.volume(node="a", number=n, folder=tmp_path / str(n)) for n in (1, 2))
    for volume, phase in ((bound, "Bound"), (free, "Released")):
        volume["status"] = {"phase": phase}
        folder = Path(volume["spec"]["local"]["path"])
        folder.mkdir()
        (folder / "model").write_text("x")
    Server.volumes[:] = [bound, free]
    keeper = storage.VolumeKeeper(api)
    while not Server.patches:
        time.sleep(0.05)
    keeper.stop()
    assert (tmp_path / "1" / "model").exists()
    assert list((tmp_path / "2").iterdir()) == []
    assert Server.patches == {f"{storage.PATH}/a-2": {"spec": {"claimRef": None}}}
