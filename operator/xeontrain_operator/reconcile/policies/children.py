"""Which children are to be made or scaled for a job that lives, and what is refused of that."""

from __future__ import annotations

from typing import Any, Final

from xeontrain_operator.api import conditions as c
from xeontrain_operator.api.v1alpha1 import RestartsStatus
from xeontrain_operator.builders.children import build_children, child_kinds
from xeontrain_operator.reconcile.decision import Action, Create, Scale
from xeontrain_operator.reconcile.observed import ApplyError, is_terminating
from xeontrain_operator.reconcile.situation import Situation
from xeontrain_operator.reconcile.text import quote, sentence
from xeontrain_operator.reconcile.word import Word

MOST_NAMED: Final = 3


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
    refused = (kind, name, "create")
    if any((error.kind, error.name, error.verb) == refused for error in situation.observed.apply_errors):
        return False
    # Pods of an earlier set bear the names that the new set's would have.
    return kind != "StatefulSet" or not situation.old_pods


_WITHOUT: Final = {
    "Service": "Without it the workers do not find each other by name.",
    "NetworkPolicy": "Without it nothing keeps other pods from the workers' ports.",
    "ConfigMap": "Without it a replaced worker cannot read what to train.",
}


def judge_children(situation: Situation) -> Word | None:
    """The condition ChildrenReady: what the API server refuses at this moment; None where it never has."""
    errors = situation.observed.apply_errors
    if errors:
        message = " ".join(_refusal_in_words(error) for error in errors[:MOST_NAMED])
        return Word(status="False", reason=c.REJECTED_BY_API_SERVER, message=message)
    if c.find_condition(situation.status.conditions, c.CHILDREN) is None:
        return None
    return Word(status="True", reason=c.ALL_CHILDREN, message="Nothing of the job is refused.")


def _refusal_in_words(error: ApplyError) -> str:
    said = sentence(quote(error.message))
    without = _WITHOUT.get(error.kind) if error.verb == "create" else None
    return (
        f"The API server refuses to {error.verb} the {error.kind} {error.name} ({error.status_code} "
        f"{error.reason}): {said}{f' {without}' if without else ''} It is tried again."
    )
