"""The verdict of a job: what the coordinator decides, and the document that tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from .wire import MAX_ROUND, MAX_WORKERS, Fields, MessageError

SUCCEEDED = "Succeeded"
FAILED = "Failed"

USER_ERROR = "UserError"
RANK_FAILED = "RankFailed"
BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"

FAILURE_REASONS = frozenset({USER_ERROR, BACKOFF_LIMIT_EXCEEDED, "NotPinned", "PlanImpossible"})


@dataclass(frozen=True)
class Decision:
    """A verdict before it is published. `failure`: the contract's object, None on success.

    `document` is set where the verdict was heard from another that had published it: it is taken over
    unchanged.
    """

    outcome: str
    round: int
    failures: int
    failure: Optional[Mapping[str, Any]] = None
    document: Optional[Mapping[str, Any]] = None


def read_verdict(fields: Optional[Fields], *, job_uid: str) -> Optional[dict[str, Any]]:
    """The result document, checked as far as anyone relies on it. Raises MessageError."""
    if fields is None:
        return None
    if fields.text("jobUid", limit=128, low=1) != job_uid:
        raise MessageError("verdict.jobUid: of another job")
    fields.choice("outcome", options=frozenset({SUCCEEDED, FAILED}))
    fields.integer("round", low=0, high=MAX_ROUND)
    fields.integer("failures", low=0, high=MAX_ROUND)
    if fields.raw.get("model") is not None:
        fields.text("model", limit=4096)
    _read_failure(fields.optional_child("failure"))
    fields.child("metrics").scalars(limit=256, text_limit=0)
    return dict(fields.raw)


def _read_failure(fields: Optional[Fields]) -> None:
    if fields is None:
        return
    fields.choice("reason", options=FAILURE_REASONS)
    fields.text("message", limit=4096)
    fields.integer("worker", low=0, high=MAX_WORKERS - 1)
    fields.optional_integer("rank", low=0, high=1 << 30)
    fields.optional_integer("exitCode", low=0, high=255)
    fields.optional_integer("signal", low=1, high=64)
