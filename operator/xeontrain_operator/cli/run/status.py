"""What worker 0's launcher says of the run, and the verdict that it leaves."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from xeontrain_operator.cli.run.worker import LOOPBACK

JsonDict = dict[str, Any]

_TIMEOUT_SECONDS: Final = 3.0
_LARGEST_ANSWER: Final = 4 << 20


@dataclass(frozen=True)
class Status:
    """The parts of `GET /status` that are shown."""

    state: str
    progress: JsonDict = field(default_factory=dict)
    failures: tuple[JsonDict, ...] = ()
    cpus: dict[int, JsonDict] = field(default_factory=dict)
    trouble: str = ""
    """What keeps worker 0 from beginning."""
    stragglers: JsonDict = field(default_factory=dict)
    """Ranks that still run although others have ended with success."""


def ask(port: int) -> Status | None:
    """Ask a launcher of this machine; None where it does not answer (yet)."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/status")
        answer = connection.getresponse()
        document = json.loads(answer.read(_LARGEST_ANSWER)) if answer.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return _status(document) if isinstance(document, dict) else None


def _status(document: JsonDict) -> Status:
    members = document.get("members") or []
    return Status(
        state=str(document.get("state", "")),
        progress=document.get("progress") or {},
        failures=tuple(document.get("failures") or ()),
        cpus={member["worker"]: member["cpu"] for member in members if member.get("cpu")},
        trouble=str((document.get("trouble") or {}).get("message", "")),
        stragglers=document.get("stragglers") or {},
    )


@dataclass(frozen=True)
class Verdict:
    """The result document."""

    succeeded: bool
    metrics: dict[str, float]
    model: str | None
    reason: str
    message: str


def read_verdict(termination_log: Path) -> Verdict | None:
    """Return what worker 0 wrote at its end; None where it ended without."""
    try:
        document = json.loads(termination_log.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(document, dict) or "outcome" not in document:
        return None
    failure = document.get("failure") or {}
    return Verdict(
        succeeded=document["outcome"] == "Succeeded",
        metrics=document.get("metrics") or {},
        model=document.get("model"),
        reason=str(failure.get("reason", "")),
        message=str(failure.get("message", "")),
    )


def last_sentence(termination_log: Path) -> str | None:
    """Return why a launcher ended without a verdict, where it has said so."""
    try:
        text = termination_log.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
    return text or None
