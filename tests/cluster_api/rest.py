"""The API server by plain HTTP: hundreds of requests in the time that kubectl needs for a few."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Answer:
    """Status code and body, as JSON."""

    code: int
    body: dict[str, Any]

    @property
    def taken(self) -> bool:
        """Whether the request succeeded."""
        return self.code < 300

    @property
    def message(self) -> str:
        """What the API server says to people, its causes and warnings included."""
        return json.dumps(self.body, ensure_ascii=False) if not self.taken else ""


class Rest:
    """A client for the cluster of a kubeconfig with a bearer token."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._server = str(cluster["server"])
        self._token = str(user["token"])
        self._context = _trust(cluster)

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer:
        """Send one request; answers of any code are returned."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._server + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=60) as answer:
                return Answer(answer.status, json.load(answer))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, _body(error.read()))


def _body(data: bytes) -> dict[str, Any]:
    """A path that is not served (yet) is answered in plain text."""
    try:
        body = json.loads(data)
    except ValueError:
        return {"message": data.decode(errors="replace")}
    return body if isinstance(body, dict) else {"message": str(body)}


def _trust(cluster: dict[str, Any]) -> ssl.SSLContext:
    if "certificate-authority-data" in cluster:
        text = base64.b64decode(cluster["certificate-authority-data"]).decode()
        return ssl.create_default_context(cadata=text)
    return ssl.create_default_context(cafile=cluster["certificate-authority"])
