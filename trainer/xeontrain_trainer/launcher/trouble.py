"""What keeps this worker from its place in the gang, as `/status` and `/readyz` tell it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, Optional

NAME_NOT_FOUND = "NameNotFound"
REFUSED = "Refused"
TIMED_OUT = "TimedOut"
UNREACHABLE = "Unreachable"
NOT_THE_GANG = "NotTheGang"
SUPERSEDED = "Superseded"
NOT_WRITABLE = "NotWritable"
PORTS_TAKEN = "PortsTaken"

REASONS = (
    NAME_NOT_FOUND,
    REFUSED,
    TIMED_OUT,
    UNREACHABLE,
    NOT_THE_GANG,
    SUPERSEDED,
    NOT_WRITABLE,
    PORTS_TAKEN,
)

GIVE_UP_SECONDS = 60.0
"""How long what is needed of this pod's own storage or ports is tried before the container ends for it."""

TEXT_LIMIT = 500


@dataclass(frozen=True)
class Trouble:
    """`reason`: one of REASONS. `message`: a sentence without its full stop. `since`: monotonic seconds."""

    reason: str
    message: str
    since: float

    @property
    def seconds(self) -> float:
        """For how long it has lasted."""
        return max(0.0, time.monotonic() - self.since)

    def to_json(self) -> dict[str, Any]:
        """The contract's `trouble`."""
        return {
            "reason": self.reason,
            "message": self.message[:TEXT_LIMIT],
            "seconds": round(self.seconds, 1),
        }


def trouble(reason: str, message: str, *, before: Optional[Trouble]) -> Trouble:
    """The trouble of this moment; it has lasted since the one `before` it began, whatever that was."""
    return Trouble(reason, message, since=time.monotonic() if before is None else before.since)


class GivenUpError(Exception):
    """The trouble has lasted too long: the container ends with EXIT_STORAGE, and its sentence is told."""

    def __init__(self, found: Trouble) -> None:
        super().__init__(found.message)
        self.trouble = found


def explain_storage(error: OSError, *, state_dir: str, job_dir: Optional[str]) -> tuple[str, str]:
    """Reason and message of what a round, a start or a verdict needs and cannot have: the file, the system's
    words, the remedy."""
    path = error.filename if isinstance(error.filename, str) else ""
    said = f"{path} cannot be written: {error.strerror}"
    if path and is_within(path, state_dir):
        return NOT_WRITABLE, f"{said}. It is the pod's own folder on its node, whose disk may be full"
    if path and job_dir is not None and is_within(path, job_dir):
        remedy = "Make room in the volume, or let the pod's group write to it"
        return NOT_WRITABLE, f"spec.storage: {said}. {remedy}"
    return PORTS_TAKEN, str(error)


def is_within(path: str, folder: str) -> bool:
    """Whether the path is the folder or lies in it."""
    whole, root = os.path.abspath(path), os.path.abspath(folder)
    return whole == root or whole.startswith(root + os.sep)
