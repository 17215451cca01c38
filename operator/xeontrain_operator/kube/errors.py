"""What can go wrong with a call to the Kubernetes API, told apart by what the caller may do about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class KubeError(Exception):
    """The API server, or the way to it, refused a call.

    `status` is the HTTP code (0: no answer came), `reason` the server's own CamelCase word, `message` its
    sentence for people.
    """

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason


class NotFound(KubeError):
    """The object is not there (404)."""


class Conflict(KubeError):
    """The object has changed since it was read, or another manager owns the fields (409)."""


class AlreadyExists(Conflict):
    """An object of that name is already there (409 on create)."""


class Invalid(KubeError):
    """The server does not accept the object (400, 422 and the like); trying again changes nothing."""


class Forbidden(KubeError):
    """The operator's role or a quota does not allow it (403)."""


class Expired(KubeError):
    """The continuation of a paged list is too old (410): start the list again."""


class Transient(KubeError):
    """No answer, too many requests, or a fault of the server: the same call may work a little later."""

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", retry_after_seconds: float = 0.0
    ) -> None:
        super().__init__(message, status=status, reason=reason)
        self.retry_after_seconds = retry_after_seconds


_BY_STATUS: Mapping[int, type[KubeError]] = {
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
}
# 401: a service account's token has just been rotated, the next call reads the new one.
_TRANSIENT = frozenset({401, 408, 429})


def from_response(*, status: int, body: bytes, retry_after: str | None = None) -> KubeError:
    """The error for an answer with `status` >= 300 and the `Status` object (or anything else) in `body`."""
    answer = _status_object(body)
    message = str(answer.get("message") or body[:500].decode("utf-8", "replace") or f"HTTP {status}")
    reason = str(answer.get("reason") or "")
    if status in _TRANSIENT or status >= 500:
        return Transient(message, status=status, reason=reason, retry_after_seconds=_seconds(retry_after))
    if status == 409 and reason == "AlreadyExists":
        return AlreadyExists(message, status=status, reason=reason)
    return _BY_STATUS.get(status, Invalid)(message, status=status, reason=reason)


def _status_object(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _seconds(retry_after: str | None) -> float:
    """`Retry-After` as the API server sends it: whole seconds."""
    return float(retry_after) if retry_after and retry_after.isdigit() else 0.0
