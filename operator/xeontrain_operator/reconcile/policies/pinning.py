"""The condition CPUPinned: are the workers' CPUs their own, as far as can be proved."""

from __future__ import annotations

from dataclasses import dataclass

from xeontrain_operator.api import conditions as c
from xeontrain_operator.api.v1alpha1 import TriState
from xeontrain_operator.reconcile.pods import is_guaranteed
from xeontrain_operator.reconcile.situation import Situation
from xeontrain_operator.reconcile.text import counted, quote, sentence


@dataclass(frozen=True, kw_only=True)
class Pinning:
    """The condition CPUPinned."""

    status: TriState
    reason: str
    message: str


def judge_pinning(situation: Situation) -> Pinning | None:
    """None where nothing new is known: what was found while all workers reported then stands."""
    if situation.spec.pinning == "Disabled":
        message = "spec.pinning is Disabled: the workers share their CPUs with others."
        return Pinning(status="False", reason=c.NOT_REQUESTED, message=message)
    shared = [worker for worker, pod in situation.running.items() if not is_guaranteed(pod)]
    if shared:
        message = (
            f"The pod of worker {shared[0]} is not Guaranteed, so it gets no CPUs of its own: something in "
            "this namespace adds containers or changes resources (a LimitRange, a sidecar injector)."
        )
        return Pinning(status="False", reason=c.NOT_GUARANTEED, message=message)
    known = {worker: member["cpu"] for worker, member in situation.members.items() if member.get("cpu")}
    if len(known) < situation.spec.workers:
        return None
    return _by_workers({worker: cpu for worker, cpu in sorted(known.items())}, situation)


def _by_workers(cpus: dict[int, dict[str, object]], situation: Situation) -> Pinning:
    for status, reason in (("False", c.NOT_EXCLUSIVE), ("Unknown", c.NOT_PROVEN)):
        worker = next((w for w, cpu in cpus.items() if cpu.get("exclusive", "Unknown") == status), None)
        if worker is not None:
            said = cpus[worker].get("message") or cpus[worker].get("reason") or "its launcher gives no reason"
            return Pinning(
                status="False" if status == "False" else "Unknown",
                reason=reason,
                message=sentence(f"Worker {worker}: {quote(said)}"),
            )
    each = situation.spec.resources.cpu
    who = "The worker has" if situation.spec.workers == 1 else f"Each of {situation.spec.workers} workers has"
    return Pinning(status="True", reason=c.EXCLUSIVE, message=f"{who} {counted(each, 'CPU')} of its own.")
