"""A few calls of the API server without a kubectl process each, for what the harness asks again and again."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.cluster.errors import ClusterError

TIMEOUT_SECONDS = 10


class Api:
    """The API server at a URL, as the bearer of a token."""

    def __init__(self, url: str, *, token: str, ca_file: Path) -> None:
        self._url = url
        self._token = token
        self._tls = ssl.create_default_context(cafile=str(ca_file))

    def text(self, path: str) -> str:
        """Returns what a GET of the path answers; raises ClusterError where it is not 200."""
        return self._call("GET", path)

    def get(self, path: str) -> Any:
        """Returns the JSON that a GET of the path answers; raises ClusterError where it is not 200."""
        return json.loads(self.text(path))

    def merge_patch(self, path: str, change: Any) -> Any:
        """Returns the object after a JSON merge patch; raises ClusterError where it is refused."""
        return json.loads(self._call("PATCH", path, body=json.dumps(change).encode()))

    def _call(self, method: str, path: str, *, body: bytes | None = None) -> str:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/merge-patch+json"}
        request = urllib.request.Request(f"{self._url}{path}", data=body, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=TIMEOUT_SECONDS) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                raise ClusterError(f"{method} {path}: {error.code} {error.read(500)!r}") from error
        except OSError as error:
            raise ClusterError(f"{method} {path}: {error}") from error
