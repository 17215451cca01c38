"""Fields that are accepted but not yet honoured: never ignored in silence.

Each row names a field, says whether its value asks for what is not there yet, and what happens instead.
A row goes when its behaviour comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from xeontrain_operator.api.problem import Problem
from xeontrain_operator.api.v1alpha1 import XeonTrainJobSpec


class _Row(NamedTuple):
    path: str
    asked: Callable[[XeonTrainJobSpec], bool]
    sentence: str


def _other_task(spec: XeonTrainJobSpec) -> bool:
    return spec.training is not None and spec.training.task != "text-classification"


def _ipex(spec: XeonTrainJobSpec) -> bool:
    return spec.training is not None and spec.training.ipex == "Enabled"


_ROWS: Final = (
    _Row(
        "spec.training.task",
        _other_task,
        "only text-classification is built in yet; the trainer will refuse it",
    ),
    _Row("spec.training.ipex", _ipex, "the trainer uses stock PyTorch"),
    _Row("spec.distributed.backend", lambda s: s.distributed.backend == "CCL", "the ranks use Gloo"),
    _Row(
        "spec.distributed.ccl.workersPerRank",
        lambda s: s.distributed.ccl.workers_per_rank != "Auto",
        "the plan sets no oneCCL workers yet",
    ),
    _Row(
        "spec.checkpoint.everySteps",
        lambda s: s.checkpoint.every_steps is not None,
        "no checkpoints are written yet; a restarted run begins at the first step",
    ),
    _Row(
        "spec.checkpoint.everyMinutes",
        lambda s: s.checkpoint.every_minutes != type(s.checkpoint)().every_minutes,
        "no checkpoints are written yet; a restarted run begins at the first step",
    ),
    _Row(
        "spec.checkpoint.keep",
        lambda s: s.checkpoint.keep != type(s.checkpoint)().keep,
        "no checkpoints are written yet",
    ),
    _Row(
        "spec.checkpoint.resume",
        lambda s: s.checkpoint.resume is not None,
        "the run begins at the first step",
    ),
    _Row(
        "spec.runPolicy.preRunningDeadlineSeconds",
        lambda s: (
            s.run_policy.pre_running_deadline_seconds != type(s.run_policy)().pre_running_deadline_seconds
        ),
        "a job with only some of its pods keeps them",
    ),
)


def not_honoured(spec: XeonTrainJobSpec) -> list[Problem]:
    """Return the fields that ask for more than is done yet, each with what happens instead."""
    return [
        Problem(row.path, f"accepted, not yet honoured: {row.sentence}") for row in _ROWS if row.asked(spec)
    ]
