"""Fields that are accepted but not yet honoured: never ignored in silence.

Each row names a field, says whether its value asks for what is not there yet, and what happens instead.
A row goes when its behaviour comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from xeontrain_operator.api.problem import Problem
from xeontrain_operator.api.v1alpha1 import RunPolicy, XeonTrainJobSpec


class _Row(NamedTuple):
    path: str
    asked: Callable[[XeonTrainJobSpec], bool]
    sentence: str


_DEFAULT_POLICY: Final = RunPolicy()

_ROWS: Final = (
    _Row(
        "spec.runPolicy.suspend",
        lambda s: s.run_policy.suspend,
        "the pods go, but the resumed run begins at its first step, since no checkpoints are written yet",
    ),
    _Row(
        "spec.runPolicy.preRunningDeadlineSeconds",
        lambda s: s.run_policy.pre_running_deadline_seconds != _DEFAULT_POLICY.pre_running_deadline_seconds,
        "a job that cannot start fails in time, but one with some of its pods does not make room for another",
    ),
)


def not_honoured(spec: XeonTrainJobSpec) -> list[Problem]:
    """Return the fields that ask for more than is done yet, each with what happens instead."""
    return [
        Problem(row.path, f"accepted, not yet honoured: {row.sentence}") for row in _ROWS if row.asked(spec)
    ]
