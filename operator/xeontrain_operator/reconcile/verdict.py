"""A job's verdict: worker 0's result document, never an exit code alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xeontrain_operator.constants import CONTRACT_VERSION
from xeontrain_operator.reconcile.observed import Document, LauncherReport
from xeontrain_operator.reconcile.pods import pod_uid, terminations
from xeontrain_operator.reconcile.text import printable

SUCCEEDED = "Succeeded"
FAILED = "Failed"

# What a status may hold; a pod can say anything.
COUNT_LIMIT = 2**31 - 1
METRIC_LIMIT = 1e300
METRICS_LIMIT = 64
MODEL_LIMIT = 512


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result document (docs/contract.md), read."""

    outcome: str
    round: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    model: str | None = None
    failures: int = 0
    failure: Mapping[str, Any] = field(default_factory=dict)

    @property
    def succeeded(self) -> bool:
        """Whether all workers have reported success of one round."""
        return self.outcome == SUCCEEDED


def read_verdict(document: object, *, uid: str) -> Verdict | None:
    """The verdict in a decoded document; None where it is none, of another job, or of a contract that
    this operator does not know (a pod's log or a program of the user's may stand in its place)."""
    if not isinstance(document, Mapping):
        return None
    known = document.get("contract") == CONTRACT_VERSION and document.get("jobUid") == uid
    if not known or document.get("worker") != 0 or document.get("outcome") not in (SUCCEEDED, FAILED):
        return None
    metrics, failure, model = (document.get(key) for key in ("metrics", "failure", "model"))
    return Verdict(
        outcome=str(document["outcome"]),
        round=count(document.get("round")),
        metrics=_numbers(metrics) if isinstance(metrics, Mapping) else {},
        model=printable(model) if isinstance(model, str) and len(model) <= MODEL_LIMIT else None,
        failures=count(document.get("failures")),
        failure=_failure(failure) if isinstance(failure, Mapping) else {},
    )


def has_document(terminated: Mapping[str, Any], *, uid: str) -> bool:
    """Whether a terminated container state carries this job's result document."""
    return read_verdict(_decode(terminated.get("message")), uid=uid) is not None


def find_verdict(*, worker_zero: Document | None, report: LauncherReport | None, uid: str) -> Verdict | None:
    """The verdict in worker 0's terminated state or last state, or in what its launcher answers."""
    candidates: list[object] = []
    if worker_zero is not None:
        candidates += [_decode(terminated.get("message")) for terminated in terminations(worker_zero)]
    if report is not None and _is_of(report, worker_zero=worker_zero, uid=uid):
        candidates.append(report.status.get("verdict"))
    verdicts = (read_verdict(candidate, uid=uid) for candidate in candidates)
    return next((verdict for verdict in verdicts if verdict is not None), None)


def _is_of(report: LauncherReport, *, worker_zero: Document | None, uid: str) -> bool:
    if report.status.get("jobUid") != uid:
        return False
    return worker_zero is None or report.status.get("podUid") == pod_uid(worker_zero)


def _decode(message: object) -> object:
    if not isinstance(message, str):
        return None
    try:
        return json.loads(message)
    except ValueError:
        return None


def count(value: object) -> int:
    """A count that a status may hold; 0 where a pod says something else."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= COUNT_LIMIT
    return value if is_count and isinstance(value, int) else 0


def _failure(document: Mapping[str, Any]) -> dict[str, Any]:
    """Its texts and whole numbers; anything else in it is no part of the contract."""
    texts = {key: printable(value) for key, value in document.items() if isinstance(value, str)}
    numbers = {
        key: value
        for key, value in document.items()
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= COUNT_LIMIT
    }
    return texts | numbers


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    numbers = {
        printable(str(name)): float(value)
        for name, value in metrics.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= METRIC_LIMIT
    }
    return dict(list(numbers.items())[:METRICS_LIMIT])
