"""Reading and writing the test cluster over HTTP: kubectl for each glance would be most of a test's time."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Final

import yaml
from xeontrain_operator.kube import kinds
from xeontrain_operator.kube.kinds import Kind

Document = dict[str, Any]

QUOTA: Final = Kind("", "v1", "ResourceQuota", "resourcequotas")
_KINDS: Final = {kind.kind.lower(): kind for kind in (*kinds.ALL, QUOTA)}
_KINDS["xtj"] = kinds.JOB


def kind_of(word: str) -> Kind:
    """The kind that kubectl knows by this word."""
    return _KINDS[word.lower().removesuffix("s")]


class Api:
    """An administrator's access to the API server."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        self._server = config["clusters"][0]["cluster"]["server"]
        self._token = config["users"][0]["user"]["token"]
        self._context = _context(config["clusters"][0]["cluster"])

    def get(self, kind: Kind, *, namespace: str | None, name: str) -> Document | None:
        """The object, None where it is not there."""
        try:
            return self._call("GET", kind.path(namespace=namespace, name=name))
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def list(self, kind: Kind, *, namespace: str, **selectors: str) -> list[Document]:
        """Objects of a namespace; selectors as in the API: labelSelector, fieldSelector."""
        path = f"{kind.path(namespace=namespace)}?{urllib.parse.urlencode(selectors)}"
        return list(self._call("GET", path)["items"])

    def merge(
        self, kind: Kind, patch: Document, *, namespace: str | None, name: str, subresource: str = ""
    ) -> None:
        """A JSON merge patch."""
        self._call("PATCH", kind.path(namespace=namespace, name=name, subresource=subresource), patch)

    def end_pod(self, *, namespace: str, name: str) -> None:
        """Takes a pod away at once, as a kubelet does that has ended its containers."""
        try:
            self._call("DELETE", kinds.POD.path(namespace=namespace, name=name), {"gracePeriodSeconds": 0})
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise

    def _call(self, method: str, path: str, body: Document | None = None) -> Document:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = urllib.request.Request(
            self._server + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": kind},
        )
        with urllib.request.urlopen(request, context=self._context, timeout=30) as answer:
            return dict(json.loads(answer.read()))


def _context(cluster: Document) -> ssl.SSLContext:
    certificate = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return ssl.create_default_context(cadata=certificate)
