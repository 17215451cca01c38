"""Which children are to be made or scaled for a job that lives."""

from __future__ import annotations

from typing import Any

from xeontrain_operator.api.v1alpha1 import RestartsStatus
from xeontrain_operator.builders.children import build_children, child_kinds
from xeontrain_operator.reconcile.decision import Action, Create, Scale
from xeontrain_operator.reconcile.observed import is_terminating
from xeontrain_operator.reconcile.situation import Situation


def make_children(situation: Situation) -> list[Action]:
    """Absent children of a job that lives are made, in building order.

    What stands is left as it is: template and ConfigMap are frozen. A child that is on its way out, or that
    the API server has refused, is waited for.
    """
    present = {child["kind"] for child in situation.named_children}
    if child_kinds(situation.job, settings=situation.settings) <= present:
        return []
    failures = (situation.status.restarts or RestartsStatus()).failures
    bodies = build_children(situation.job, settings=situation.settings, failures_counted=failures)
    return [Create(body=body) for body in bodies if _is_wanted(situation, body)]


def scale(situation: Situation, *, replicas: int) -> list[Action]:
    """The set's replicas, and nothing else of it."""
    found = situation.stateful_set
    if found is None or is_terminating(found) or (found.get("spec") or {}).get("replicas") == replicas:
        return []
    metadata = found["metadata"]
    return [Scale(name=metadata["name"], uid=metadata["uid"], replicas=replicas)]


def _is_wanted(situation: Situation, body: dict[str, Any]) -> bool:
    kind, name = body["kind"], body["metadata"]["name"]
    if any(child["kind"] == kind for child in situation.named_children):
        return False
    if any((error.kind, error.name) == (kind, name) for error in situation.observed.apply_errors):
        return False
    # Pods of an earlier set bear the names that the new set's would have.
    return kind != "StatefulSet" or not situation.old_pods
