"""The plan of one worker: which CPUs each rank computes on, which it communicates on, and its environment.

A pure function of the machine and the request. The rules: one compute CPU a physical core; the CFS quota and
the CPU limit respected; equal slices that cross a NUMA node only where fewer ranks than nodes are asked for;
communication threads on sibling threads first, on whole cores where the slice is large, else on the compute
CPUs with a yielding wait; nothing outside the granted set. Where the granted set is larger than what the pod
may use (the shared pool), nothing is pinned: neighbours that all choose the same CPUs would be worse than
the scheduler's choice.
"""

from __future__ import annotations

from .layout import PlanError, agree_ranks, auto_ranks, largest_ranks
from .make import make_plan
from .model import Plan, PlanRequest, RankPlan, plan_from_json
from .surroundings import look_around

__all__ = [
    "Plan",
    "PlanError",
    "PlanRequest",
    "RankPlan",
    "agree_ranks",
    "auto_ranks",
    "largest_ranks",
    "look_around",
    "make_plan",
    "plan_from_json",
]
