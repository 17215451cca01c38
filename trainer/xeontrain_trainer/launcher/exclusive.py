"""Are the CPUs of this container its own? A pure judgement from inside; QoS class is the operator's side.

The kubelet's static CPU manager gives a container exactly as many CPUs as its whole-CPU limit, keeps some of the
node for the rest, and (since Kubernetes 1.33) lifts the CFS quota. A quota left in place therefore means that
nothing is proved: a Burstable pod on a two-CPU node looks the same otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ..machine import Machine


@dataclass(frozen=True)
class Exclusiveness:
    """`value`: True, False or Unknown, as in `CPUPinned`. `reason`: Exclusive, NotProven, SharedPool,
    FractionalCPU, QuotaThrottled or Disabled. `message`: a sentence for people."""

    value: str
    reason: str
    message: str


def judge_exclusive(machine: Machine, *, cpu_limit_millis: Optional[int], pinning: str) -> Exclusiveness:
    """Whether the granted CPUs are exclusive to this container."""
    raise NotImplementedError
