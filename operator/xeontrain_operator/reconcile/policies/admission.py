"""Pods that the kubelet refuses: the set would make them again at once, for ever.

After one refusal the set is scaled to 0 for a while, then tried again. `Placed=Unknown` with the reason
TopologyMisfit is the record of such a stop, and its transition time the time of it.
"""

from __future__ import annotations

from typing import Final

from xeontrain_operator.api import conditions as c
from xeontrain_operator.api.v1alpha1 import Condition
from xeontrain_operator.reconcile.causes import Cause
from xeontrain_operator.reconcile.situation import Situation

RETRY_SECONDS: Final = 30.0


def refusal(situation: Situation) -> Cause | None:
    """What a kubelet says of a pod that it refuses at this moment."""
    return next((cause for cause in situation.causes if cause.reason == c.TOPOLOGY_MISFIT), None)


def stopped_by_admission(situation: Situation) -> Condition | None:
    """The record of a stop that was written, whether it is still in force or due for another try."""
    placed = c.find_condition(situation.status.conditions, c.PLACED)
    if placed is None or placed.status != "Unknown" or placed.reason != c.TOPOLOGY_MISFIT:
        return None
    return placed


def wait_seconds(situation: Situation) -> float | None:
    """Seconds for which no pods are to be made; None where nothing forbids them."""
    stopped = stopped_by_admission(situation)
    if stopped is not None:
        left = RETRY_SECONDS - situation.since_seconds(stopped.last_transition_time)
        if left > 0:
            return left
    # Also at the end of a stop: a refused pod that still stands has to go first.
    return RETRY_SECONDS if refusal(situation) is not None else None
