"""The phase: the conditions of a living job in one word."""

from __future__ import annotations

from xeontrain_operator.api.v1alpha1 import Phase
from xeontrain_operator.reconcile.situation import Situation

_IN_A_ROUND = ("Starting", "Waiting", "Stopping")


def live_phase(situation: Situation) -> Phase:
    """Pending until all containers run, Starting until the ranks do; Restarting instead of both where they
    have run before. A launcher that does not answer for a while changes nothing."""
    old = situation.status.phase
    trained = old in ("Running", "Restarting")
    if not situation.all_run:
        return "Restarting" if trained else "Pending"
    state = (situation.report or {}).get("state")
    if state == "Running":
        return "Running"
    if state in _IN_A_ROUND:
        return "Restarting" if trained else "Starting"
    return "Running" if old == "Running" else "Restarting" if trained else "Starting"
