"""What the port shows, as pure functions of the gang's state: `/status` and `/metrics`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from ..contract import CONTRACT_VERSION
from ..gang.coordinator import Coordinator, FailureRecord, Stragglers
from ..gang.member import Member
from ..gang.messages import STATES, WAITING
from ..gang.seats import Seat
from .progress import utc
from .settings import Settings
from .trouble import Trouble


def status_document(
    settings: Settings,
    *,
    member: Member,
    coordinator: Optional[Coordinator],
    cpu: Mapping[str, Any],
    warnings: Sequence[str],
    progress: Optional[Mapping[str, Any]],
    trouble: Optional[Trouble],
) -> dict[str, Any]:
    """The contract's `/status`; `coordinator` is None on all workers but 0, which then leave out its keys."""
    document = _of_anybody(settings, cpu=cpu, trouble=trouble)
    document.update(
        state=member.state,
        round=current_round(member),
        warnings=list(warnings),
        progress=progress,
        verdict=member.verdict if coordinator is None else coordinator.verdict,
    )
    if coordinator is not None:
        document["members"] = [_member(seat, coordinator) for seat in coordinator.seats]
        document["members"].sort(key=lambda entry: entry["worker"])
        document["missing"] = coordinator.seats.missing()
        document["failures"] = [_failure(record) for record in coordinator.failures]
        document["failuresCounted"] = coordinator.failures_counted
        document["stragglers"] = _stragglers(coordinator.stragglers())
    return document


def starting_document(
    settings: Settings, *, cpu: Mapping[str, Any], trouble: Optional[Trouble]
) -> dict[str, Any]:
    """`/status` before this launcher knows its own identity: it has no part in the gang yet."""
    document = _of_anybody(settings, cpu=cpu, trouble=trouble)
    if settings.worker == 0:
        document.update(members=[], missing=list(range(settings.workers)), failures=[])
        document.update(failuresCounted=settings.failures_counted, stragglers=None)
    return document


def _of_anybody(settings: Settings, *, cpu: Mapping[str, Any], trouble: Optional[Trouble]) -> dict[str, Any]:
    """The keys that all workers have at all times, with what they say while there is no gang."""
    return {
        "contract": CONTRACT_VERSION,
        "jobUid": settings.job_uid,
        "worker": settings.worker,
        "podUid": settings.pod_uid,
        "state": WAITING,
        "round": 0,
        "cpu": dict(cpu),
        "warnings": [],
        "progress": None,
        "trouble": trouble and trouble.to_json(),
        "verdict": None,
    }


def current_round(member: Member) -> int:
    """The round it is in, or the last one it has heard of; 0 before the first."""
    if member.round is not None:
        return member.round.number
    return int(member.verdict["round"]) if member.verdict is not None else member.highest


def _member(seat: Seat, coordinator: Coordinator) -> dict[str, Any]:
    report = seat.report
    return {
        "worker": report.worker,
        "podUid": report.identity.pod_uid,
        "state": report.state,
        "round": report.round.number if report.round else 0,
        "cpu": report.cpu,
        "lastSeenSeconds": round(coordinator.seen_seconds_ago(seat), 1),
        "stateSeconds": round(coordinator.state_seconds(seat), 1),
    }


def _stragglers(found: Optional[Stragglers]) -> Optional[dict[str, Any]]:
    if found is None:
        return None
    return {"ranks": list(found.ranks), "count": found.count, "seconds": round(found.seconds, 1)}


def _failure(record: FailureRecord) -> dict[str, Any]:
    cause = record.cause
    return {
        "id": record.id,
        "round": record.round,
        "worker": cause.worker,
        "rank": cause.rank,
        "exitCode": cause.exit_code,
        "signal": cause.signal,
        "reason": record.reason,
        "message": cause.message,
        "time": _utc(cause.time),
    }


def _utc(seconds: float) -> str:
    """A time that another worker has sent may be no date at all."""
    return utc(min(max(seconds, 0.0), 253402300799.0))


METRICS = (
    ("round", "gauge", "Number of the round that this worker is in, or was in last."),
    ("ranks_alive", "gauge", "Ranks of this worker that are alive."),
    ("step", "gauge", "Optimizer steps done, as rank 0 reports them."),
    ("total_steps", "gauge", "Optimizer steps of the whole run."),
    ("loss", "gauge", "Training loss, as rank 0 reports it."),
    ("samples_per_second", "gauge", "Samples of all ranks a second, as rank 0 reports them."),
    ("workers_missing", "gauge", "Workers that have not reported or no longer do."),
    ("failures_total", "counter", "Failures counted, those before this set of pods included."),
)


def metrics_text(status: Mapping[str, Any], *, ranks_alive: int) -> str:
    """Prometheus text of a `/status` document. What is not known is left out."""
    progress = status.get("progress") or {}
    values = {
        "round": status["round"],
        "ranks_alive": ranks_alive,
        "step": progress.get("step"),
        "total_steps": progress.get("totalSteps"),
        "loss": progress.get("loss"),
        "samples_per_second": progress.get("samplesPerSecond"),
        "workers_missing": len(status["missing"]) if "missing" in status else None,
        "failures_total": status.get("failuresCounted"),
    }
    lines: list[str] = []
    for name, kind, text in METRICS:
        value = values[name]
        if value is not None and math.isfinite(value):
            metric = f"xeontrain_launcher_{name}"
            lines += [f"# HELP {metric} {text}", f"# TYPE {metric} {kind}", f"{metric} {value}"]
    lines += [
        "# HELP xeontrain_launcher_state 1 for the state that this worker is in.",
        "# TYPE xeontrain_launcher_state gauge",
    ]
    for state in sorted(STATES):
        lines.append(f'xeontrain_launcher_state{{state="{state}"}} {int(state == status["state"])}')
    return "\n".join(lines) + "\n"
