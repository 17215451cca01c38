"""How far the run is and what it computes on, rounded to what a person would see change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from xeontrain_operator.api.conditions import timestamp
from xeontrain_operator.api.v1alpha1 import CpuStatus, ProgressStatus
from xeontrain_operator.reconcile.situation import Situation, parse_time
from xeontrain_operator.reconcile.text import quote, significant

LONGEST_ETA_SECONDS = 10 * 365 * 86_400
MOST_EPOCHS = 1_000_000_000
MOST_CORES = 2**31 - 1
MOST_REASON = 512
Number = TypeVar("Number", int, float)


def read_progress(situation: Situation) -> ProgressStatus | None:
    """Worker 0's progress, or the old one where it says nothing new (its time alone is nothing new)."""
    old = situation.status.progress
    said: Mapping[str, Any] | None = (situation.report or {}).get("progress")
    if said is None:
        return old
    new = _progress(said)
    same = old is not None and new == old.model_copy(update={"updated_at": None})
    return old if same else new.model_copy(update={"updated_at": _time(said.get("time"))})


def finished_progress(old: ProgressStatus | None) -> ProgressStatus | None:
    """The progress of a run that has succeeded: the last answer may have come before its last step."""
    if old is None or old.total_steps is None:
        return old
    total = old.total_steps
    return old.model_copy(
        update={
            "step": total,
            "percent": 100,
            "display": f"100% ({total}/{total})",
            "eta_seconds": 0,
            "eta_display": "0s",
        }
    )


def stopped_progress(old: ProgressStatus | None) -> ProgressStatus | None:
    """The progress of a run that stands: how far it came, with no speed and no time left."""
    if old is None:
        return None
    return old.model_copy(update={"samples_per_second": None, "eta_seconds": None, "eta_display": None})


def _progress(said: Mapping[str, Any]) -> ProgressStatus:
    step, total = int(said["step"]), said.get("totalSteps")
    percent = min(100, step * 100 // total) if total else None
    eta = _bounded(said.get("etaSeconds"), LONGEST_ETA_SECONDS)
    eta_seconds = None if eta is None else _round_duration(eta)
    return ProgressStatus(
        step=step,
        total_steps=total,
        epoch=_rounded(_bounded(said.get("epoch"), MOST_EPOCHS), decimals=2),
        percent=percent,
        loss=significant(said.get("loss"), digits=4),
        samples_per_second=significant(said.get("samplesPerSecond"), digits=3),
        eta_seconds=eta_seconds,
        eta_display=None if eta_seconds is None else duration_text(eta_seconds),
        display=f"step {step}" if percent is None else f"{percent}% ({step}/{total})",
        last_checkpoint_step=said.get("lastCheckpointStep"),
    )


def read_cpu(situation: Situation) -> CpuStatus | None:
    """What the ranks compute on; the old where worker 0 says nothing."""
    report = situation.report
    if report is None:
        return situation.status.cpu
    cpus = [member["cpu"] for member in situation.members.values() if member.get("cpu")]
    first: Mapping[str, Any] = report.get("cpu") or (cpus[0] if cpus else {})
    progress: Mapping[str, Any] = report.get("progress") or {}
    old = situation.status.cpu or CpuStatus()
    if not first:
        return situation.status.cpu
    return CpuStatus(
        model=_cut(first.get("model"), 253),
        instruction_set=_cut(first.get("instructionSet"), 64),
        precision=_cut(progress.get("precision"), 64) or old.precision,
        backend=_cut(progress.get("backend"), 64) or old.backend,
        **_decisions(progress, old=old),
        ranks=_bounded(sum(int(cpu.get("ranks") or 0) for cpu in cpus) or None, MOST_CORES),
        cores_per_rank=_bounded(first.get("coresPerRank"), MOST_CORES),
        comm_cores_per_rank=_bounded(first.get("commCoresPerRank"), MOST_CORES),
        mixed=len({cpu.get("model") for cpu in cpus}) > 1 if cpus else None,
        warnings=tuple(quote(text) for text in report.get("warnings") or ()) or None,
    )


def _decisions(said: Mapping[str, Any], *, old: CpuStatus) -> dict[str, Any]:
    """Why the ranks compute as they do; what they do not say anew stands."""
    decisions: dict[str, Any] = {
        "precision_reason": _cut(said.get("precisionReason"), MOST_REASON),
        "fp32_samples_per_second": significant(said.get("fp32SamplesPerSecond"), digits=3),
        "bf16_samples_per_second": significant(said.get("bf16SamplesPerSecond"), digits=3),
        "backend_reason": _cut(said.get("backendReason"), MOST_REASON),
        "ipex_used": said.get("ipexUsed"),
        "ipex_reason": _cut(said.get("ipexReason"), MOST_REASON),
    }
    return {name: getattr(old, name) if value is None else value for name, value in decisions.items()}


def duration_text(seconds: int) -> str:
    """A duration as kubectl writes one: its two largest units, such as 1m20s, 3h5m, 2d4h."""
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (rest, "s")]
    first = next((index for index, (amount, _) in enumerate(parts) if amount), len(parts) - 1)
    shown = parts[first : first + 2]
    return "".join(f"{amount}{unit}" for amount, unit in shown if amount) or "0s"


def _round_duration(seconds: float) -> int:
    """To 5 s below a minute, 10 s below an hour, a minute above: an estimate is not better than that."""
    unit = 5 if seconds < 60 else 10 if seconds < 3600 else 60
    return max(0, round(seconds / unit) * unit)


def _bounded(value: Number | None, limit: Number) -> Number | None:
    """None for what is past any sense: the status would be refused with it."""
    return value if value is not None and 0 <= value <= limit else None


def _time(text: object) -> str | None:
    """As the API server takes it; a launcher of another version may write it otherwise."""
    try:
        return timestamp(parse_time(str(text)))
    except (ValueError, OverflowError):
        return None


def _rounded(value: float | None, *, decimals: int) -> float | None:
    return None if value is None else round(value, decimals)


def _cut(text: str | None, limit: int) -> str | None:
    return None if text is None else text[:limit]
