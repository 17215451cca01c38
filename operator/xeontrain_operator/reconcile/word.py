"""A condition without its times: what a policy says of one aspect of a job."""

from __future__ import annotations

from dataclasses import dataclass

from xeontrain_operator.api.v1alpha1 import TriState


@dataclass(frozen=True, kw_only=True)
class Word:
    """Status, reason and message of a condition."""

    status: TriState
    reason: str
    message: str
