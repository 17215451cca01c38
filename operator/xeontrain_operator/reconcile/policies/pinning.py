"""The condition CPUPinned: are the workers' CPUs their own, as far as can be proved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from xeontrain_operator.api import conditions as c
from xeontrain_operator.api.v1alpha1 import TriState
from xeontrain_operator.reconcile.observed import is_terminating
from xeontrain_operator.reconcile.qos import explain_shared, is_shared
from xeontrain_operator.reconcile.situation import Situation
from xeontrain_operator.reconcile.text import counted, quote, sentence
from xeontrain_operator.reconcile.verdict import Verdict
from xeontrain_operator.reconcile.word import Word

# What a launcher may say against its CPUs; a word of another version stands for the plainest of them.
_NOT_ONES_OWN: Final = frozenset({c.SHARED_POOL, c.FRACTIONAL_CPU, c.QUOTA_THROTTLED, c.DISABLED})


def judge_pinning(situation: Situation, *, verdict: Verdict | None = None) -> Word | None:
    """None where nothing new is known: what was found while all workers reported then stands.

    `verdict`: the job's end, where it is that; a launcher that refused its CPUs says why in it.
    """
    if situation.spec.pinning == "Disabled":
        message = "spec.pinning is Disabled: the workers share their CPUs with others."
        return Word(status="False", reason=c.DISABLED, message=message)
    shared = find_not_guaranteed(situation)
    if shared is not None:
        return Word(status="False", reason=c.NOT_GUARANTEED, message=shared)
    refused = _refused(verdict)
    if refused is not None:
        return refused
    known = {worker: member["cpu"] for worker, member in situation.members.items() if member.get("cpu")}
    return _by_workers(dict(sorted(known.items())), situation)


def find_not_guaranteed(situation: Situation) -> str | None:
    """Sentences about the first worker whose pod is not Guaranteed, which no launcher can see; None where
    all are."""
    for worker, pod in situation.pods.items():
        if is_shared(pod) and not is_terminating(pod):
            why = explain_shared(pod, stateful_set=situation.stateful_set)
            return f"The pod of worker {worker} is not Guaranteed, so it gets no CPUs of its own. {why}"
    return None


def _refused(verdict: Verdict | None) -> Word | None:
    failure: Mapping[str, Any] = verdict.failure if verdict is not None else {}
    if failure.get("reason") != c.NOT_PINNED or not failure.get("detail"):
        return None
    status: TriState = "Unknown" if failure["detail"] == c.NOT_PROVEN else "False"
    said = f"Worker {failure.get('worker')}: {quote(failure.get('message') or '')}"
    return Word(status=status, reason=_reason(status, failure["detail"]), message=sentence(said))


def _by_workers(cpus: Mapping[int, Mapping[str, Any]], situation: Situation) -> Word | None:
    """One worker's word is enough against, all are needed for."""
    no = next((worker for worker, cpu in cpus.items() if cpu.get("exclusive") == "False"), None)
    if no is not None:
        return _word("False", no, cpus[no])
    if len(cpus) < situation.spec.workers:
        return None
    unknown = next((worker for worker, cpu in cpus.items() if cpu.get("exclusive") != "True"), None)
    if unknown is not None:
        return _word("Unknown", unknown, cpus[unknown])
    each = situation.spec.resources.cpu
    who = "The worker has" if situation.spec.workers == 1 else f"Each of {situation.spec.workers} workers has"
    message = f"{who} {counted(each, 'CPU')} of its own.{_changes(cpus)}"
    return Word(status="True", reason=c.EXCLUSIVE, message=message)


def _word(status: TriState, worker: int, cpu: Mapping[str, Any]) -> Word:
    said = cpu.get("message") or cpu.get("reason") or "its launcher gives no reason"
    message = sentence(f"Worker {worker}: {quote(said)}") + _changes({worker: cpu})
    return Word(status=status, reason=_reason(status, cpu.get("reason")), message=message)


def _reason(status: TriState, said: object) -> str:
    if status == "Unknown":
        return c.NOT_PROVEN
    return str(said) if said in _NOT_ONES_OWN else c.SHARED_POOL


def _changes(cpus: Mapping[int, Mapping[str, Any]]) -> str:
    """What a kubelet did to the CPU set of ranks that run; of the first worker that tells it."""
    told = ((worker, cpu["changed"]) for worker, cpu in cpus.items() if cpu.get("changed"))
    return next((sentence(f" Worker {worker}: {quote(said)}") for worker, said in told), "")
