"""Who speaks: a launcher's identity, and a round's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .wire import MAX_ROUND, Fields


@dataclass(frozen=True)
class Identity:
    """One start of one launcher.

    `start`: its number in the pod, kept in the emptyDir, so that a restarted container is another identity.
    `started_at`: seconds since the epoch by the clock of its node.
    """

    pod_uid: str
    start: int
    started_at: float

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"podUid": self.pod_uid, "start": self.start, "startedAt": self.started_at}

    @classmethod
    def read(cls, fields: Fields) -> Identity:
        """Raises MessageError."""
        return cls(
            pod_uid=fields.text("podUid", limit=128, low=1),
            start=fields.integer("start", low=1, high=MAX_ROUND),
            started_at=fields.number("startedAt"),
        )


def started_later(one: Identity, other: Identity) -> bool:
    """Whether `one` started after `other`.

    In one pod the start number tells, whatever the clocks say; between pods the clocks of their nodes do,
    which may be wrong: therefore a claim that rests on this alone never outlives the other's silence.
    """
    if one.pod_uid == other.pod_uid:
        return one.start > other.start
    return (one.started_at, one.pod_uid) > (other.started_at, other.pod_uid)


@dataclass(frozen=True)
class RoundId:
    """A round: its number, and the coordinator that gave the order. Two coordinators may use one number."""

    number: int
    coordinator: Identity

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"number": self.number, "coordinator": self.coordinator.to_json()}

    @classmethod
    def read(cls, fields: Fields) -> RoundId:
        """Raises MessageError."""
        return cls(
            number=fields.integer("number", low=1, high=MAX_ROUND),
            coordinator=Identity.read(fields.child("coordinator")),
        )
