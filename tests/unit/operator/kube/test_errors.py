"""Answers of the API server become the class of error that says what the caller may do."""

from __future__ import annotations

import json

import pytest
from xeontrain_operator.kube import errors


def _status(reason: str, message: str) -> bytes:
    return json.dumps({"kind": "Status", "reason": reason, "message": message}).encode()


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        pytest.param(400, _status("BadRequest", "no"), errors.Invalid, id="bad request"),
        pytest.param(401, _status("Unauthorized", "no"), errors.Transient, id="token rotated"),
        pytest.param(403, _status("Forbidden", "exceeded quota"), errors.Forbidden, id="quota"),
        pytest.param(404, _status("NotFound", "no"), errors.NotFound, id="gone"),
        pytest.param(409, _status("Conflict", "no"), errors.Conflict, id="changed meanwhile"),
        pytest.param(409, _status("AlreadyExists", "no"), errors.AlreadyExists, id="name taken"),
        pytest.param(410, _status("Expired", "no"), errors.Expired, id="continuation too old"),
        pytest.param(413, b"", errors.Invalid, id="too large"),
        pytest.param(422, _status("Invalid", "no"), errors.Invalid, id="schema or rule"),
        pytest.param(429, _status("TooManyRequests", "no"), errors.Transient, id="throttled"),
        pytest.param(500, b"<html>", errors.Transient, id="server fault without a document"),
        pytest.param(503, b'["x"]', errors.Transient, id="document of another shape"),
    ],
)
def test_class_of_an_answer(code: int, body: bytes, expected: type[errors.KubeError]) -> None:
    """Exactly this class: a caller that catches NotFound must not get a quota."""
    error = errors.from_response(status=code, body=body)
    assert type(error) is expected
    assert error.status == code


def test_message_is_the_servers() -> None:
    """What the server says reaches the user's condition word for word."""
    error = errors.from_response(status=422, body=_status("Invalid", "spec.template: Required value"))
    assert (error.reason, error.message) == ("Invalid", "spec.template: Required value")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        pytest.param("7", 7.0, id="seconds"),
        pytest.param(None, 0.0, id="absent"),
        pytest.param("Wed, 21 Oct 2026 07:28:00 GMT", 0.0, id="a date, which the server never sends"),
    ],
)
def test_retry_after(header: str | None, seconds: float) -> None:
    """The server's wish reaches the queue."""
    error = errors.from_response(status=429, body=b"", retry_after=header)
    assert isinstance(error, errors.Transient)
    assert error.retry_after_seconds == seconds
