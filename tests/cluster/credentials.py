"""Certificate, tokens and kubeconfigs of one cluster; new at each start, worthless after it."""

from __future__ import annotations

import base64
import secrets
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.cluster.errors import ClusterError


@dataclass(frozen=True)
class User:
    """Someone whom the API server knows by a bearer token."""

    name: str
    token: str
    groups: tuple[str, ...] = ()

    @classmethod
    def new(cls, name: str, *groups: str) -> User:
        """Returns a user with a token of its own."""
        return cls(name=name, token=secrets.token_hex(16), groups=groups)


def write_token_file(path: Path, *, users: Sequence[User]) -> None:
    """Writes the API server's static token file (token, user, uid, "group,group")."""
    rows = [f'{user.token},{user.name},{user.name},"{",".join(user.groups)}"' for user in users]
    _write_secret(path, "\n".join(rows) + "\n")


def write_kubeconfig(path: Path, *, server: str, ca: Path, token: str) -> Path:
    """Writes a kubeconfig for one user; the CA goes in as data, so that the file can be moved."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "test", "cluster": {"server": server, "certificate-authority-data": _base64(ca)}}
        ],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
        "current-context": "test",
    }
    _write_secret(path, yaml.safe_dump(content, sort_keys=False))
    return path


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def make_serving_certificate(folder: Path, *, names: Sequence[str]) -> None:
    """Writes `apiserver.crt` (self-signed, so its own CA) and `apiserver.key`.

    `names` are subject alternative names as openssl writes them (`IP:127.0.0.1`, `DNS:localhost`).
    The extensions are those that Python's strict verification asks of a CA.
    """
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"),
        *("-subj", "/CN=xeontrain-test-cluster", "-addext", f"subjectAltName={','.join(names)}"),
        *("-addext", "keyUsage=critical,digitalSignature,keyCertSign"),
        *("-addext", "extendedKeyUsage=serverAuth"),
        *("-keyout", str(folder / "apiserver.key"), "-out", str(folder / "apiserver.crt")),
    )


def make_service_account_key(path: Path) -> None:
    """Writes the key that service account tokens are signed with."""
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(path))


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")
