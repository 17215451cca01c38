"""The conditions CPUUniform and PrecisionNative: whether the processors fit each other and the precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xeontrain_operator.api import conditions as c
from xeontrain_operator.api.v1alpha1 import WorkerStatus
from xeontrain_operator.reconcile.situation import Situation
from xeontrain_operator.reconcile.text import printable, quote, sentence
from xeontrain_operator.reconcile.word import Word

_MOST_WORKERS_NAMED = 8
_MOST_MODELS_NAMED = 8
_REMEDY = (
    "Write precision: Auto or FP32, or choose nodes with AVX512BF16 or AMXBF16 in placement.cpuFeatures."
)


def judge_uniform(situation: Situation, *, entries: tuple[WorkerStatus, ...]) -> Word | None:
    """Whether all workers have the same processor; with each one's speed where they do not.

    None for a single worker, and where not all have reported.
    """
    cpus = {worker: member["cpu"] for worker, member in situation.members.items() if member.get("cpu")}
    if not 1 < situation.spec.workers <= len(cpus):
        return None
    by_model: dict[str, list[int]] = {}
    for worker, cpu in sorted(cpus.items()):
        by_model.setdefault(_name(cpu), []).append(worker)
    if len(by_model) == 1:
        message = f"All {len(cpus)} workers have {next(iter(by_model))}."
        return Word(status="True", reason=c.SAME_CPU, message=message)
    rates = {entry.worker: entry.samples_per_second for entry in entries}
    named = list(by_model.items())[:_MOST_MODELS_NAMED]
    groups = "; ".join(f"{model}: {_workers(workers, rates=rates)}" for model, workers in named)
    more = f"; and {len(by_model) - len(named)} more" if len(by_model) > len(named) else ""
    message = f"The workers' processors differ, and all wait for the slowest: {groups}{more}."
    return Word(status="False", reason=c.MIXED_CPUS, message=message)


def _name(cpu: Mapping[str, Any]) -> str:
    model = printable(str(cpu.get("model") or "an unknown processor"))
    return f"{model} ({cpu['instructionSet']})" if cpu.get("instructionSet") else model


def _workers(workers: list[int], *, rates: Mapping[int, float | None]) -> str:
    """Workers by number, with what each would reach alone: `worker 0 (31 samples/s), worker 2`."""
    named = [
        f"worker {worker}" + (f" ({rate:g} samples/s)" if (rate := rates.get(worker)) is not None else "")
        for worker in workers[:_MOST_WORKERS_NAMED]
    ]
    left = len(workers) - len(named)
    return ", ".join([*named, f"{left} more"] if left else named)


def judge_precision(situation: Situation) -> Word | None:
    """Whether the cores compute in hardware what the ranks agreed on; None where they say nothing of it."""
    said: Mapping[str, Any] = (situation.report or {}).get("progress") or {}
    if not said.get("precision") or not said.get("precisionReason"):
        return None
    why = sentence(quote(said["precisionReason"]))
    if said.get("precisionEmulated"):
        return Word(status="False", reason=c.EMULATED_BF16, message=f"{why} {_REMEDY}")
    reason = c.NATIVE_BF16 if said["precision"] == "BF16" else c.FULL_PRECISION
    return Word(status="True", reason=reason, message=why)
