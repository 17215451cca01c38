"""Are the CPUs of this container its own? A pure judgement from inside; QoS class is the operator's side.

The kubelet's static CPU manager gives a container exactly as many CPUs as its whole-CPU limit, keeps some of
the node for the rest, and (since Kubernetes 1.33) lifts the CFS quota. A quota left in place therefore means
that nothing is proved: a Burstable pod on a two-CPU node looks the same otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ..machine import Machine, format_cpus

EXCLUSIVE = "Exclusive"
NOT_PROVEN = "NotProven"
SHARED_POOL = "SharedPool"
FRACTIONAL_CPU = "FractionalCPU"
QUOTA_THROTTLED = "QuotaThrottled"
DISABLED = "Disabled"


@dataclass(frozen=True)
class Exclusiveness:
    """`value`: True, False or Unknown, as in `CPUPinned`. `reason`: Exclusive, NotProven, SharedPool,
    FractionalCPU, QuotaThrottled or Disabled. `message`: a sentence for people."""

    value: str
    reason: str
    message: str


def judge_exclusive(machine: Machine, *, cpu_limit_millis: Optional[int], pinning: str) -> Exclusiveness:
    """Whether the granted CPUs are exclusive to this container.

    Exclusive among containers: host daemons outside the kubelet's reserved set may still run there.
    """
    if pinning == "Disabled":
        return Exclusiveness("False", DISABLED, "spec.pinning is Disabled: exclusive CPUs were not asked for")
    if not cpu_limit_millis:
        return Exclusiveness(
            "False", SHARED_POOL, "the container has no CPU limit, so it shares the node's CPUs"
        )
    if cpu_limit_millis % 1000:
        return _fractional(cpu_limit_millis)
    return _judge_set(machine, limit=cpu_limit_millis // 1000)


def _fractional(limit_millis: int) -> Exclusiveness:
    return Exclusiveness(
        "False",
        FRACTIONAL_CPU,
        f"the CPU limit of {limit_millis / 1000:g} is not a whole number: the kubelet gives exclusive CPUs "
        "for whole numbers only. Set spec.resources.cpu to one",
    )


def _judge_set(machine: Machine, *, limit: int) -> Exclusiveness:
    granted = len(machine.cpus)
    cpus = f"CPUs {format_cpus(machine.numbers)}"
    if granted != limit or granted >= len(machine.online):
        return Exclusiveness(
            "False",
            SHARED_POOL,
            f"the container may run on {granted} of the node's {len(machine.online)} CPUs and its limit is "
            f"{limit}: this is the shared pool. Exclusive CPUs need the static CPU manager policy there",
        )
    if machine.quota_cpus is None:
        return Exclusiveness("True", EXCLUSIVE, f"{cpus} are exclusive to this container")
    if machine.quota_cpus < limit - 1e-6:
        return Exclusiveness(
            "False",
            QUOTA_THROTTLED,
            f"a CFS quota of {machine.quota_cpus:g} CPUs throttles the container below its {limit} CPUs",
        )
    return Exclusiveness(
        "Unknown",
        NOT_PROVEN,
        f"{cpus} match the limit of {limit}, but a CFS quota is set, which the kubelet lifts for exclusive "
        "CPUs since Kubernetes 1.33: an older kubelet or a small shared pool looks like this",
    )
