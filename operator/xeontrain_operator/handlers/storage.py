"""No memory of kopf's in any object.

`on.event` handlers need none. Yet kopf would copy each object that a watch brings, whole and twice, for the
state that it might have kept: more than half of the operator's CPU time.
"""

from __future__ import annotations

from typing import Any, cast

import kopf


class NoDiffBase(kopf.DiffBaseStorage):
    """The last handled state: never looked at and never written."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Nothing of an object is compared."""
        return cast(kopf.BodyEssence, {})

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        """Nothing was stored."""
        return None

    def store(self, **_: Any) -> None:
        """Write nothing."""


class NoProgress(kopf.ProgressStorage):
    """The progress of handlers that are retried: there are none."""

    def fetch(self, **_: Any) -> kopf.ProgressRecord | None:
        """Nothing was stored."""
        return None

    def store(self, **_: Any) -> None:
        """Write nothing."""

    def purge(self, **_: Any) -> None:
        """Write nothing."""

    def touch(self, **_: Any) -> None:
        """Write nothing."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Nothing of ours is in it."""
        return essence
