"""The one decision: from what is observed of a job to what is done next. Pure.

Every path is written so that it may be taken any number of times: what it does is done only where it is
not done yet, and the status it gives is equal to the old one where nothing changed that a person would see.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from xeontrain_operator.api import conditions as c
from xeontrain_operator.api.errors import InvalidJobError
from xeontrain_operator.api.v1alpha1 import Condition, XeonTrainJobStatus, parse_job
from xeontrain_operator.reconcile.decision import Action, Create, Decision, Delete
from xeontrain_operator.reconcile.observed import Document, Observed, is_terminating
from xeontrain_operator.reconcile.pods import node_of, trainer_status
from xeontrain_operator.reconcile.policies import admission, joins, node_loss, yielding
from xeontrain_operator.reconcile.policies.acceptance import Acceptance, accept
from xeontrain_operator.reconcile.policies.children import make_children, scale
from xeontrain_operator.reconcile.policies.cleanup import clean_up
from xeontrain_operator.reconcile.policies.failures import Counted, count
from xeontrain_operator.reconcile.policies.outcome import deadline_seconds, judge
from xeontrain_operator.reconcile.situation import Situation
from xeontrain_operator.reconcile.status import (
    cleaned_status,
    ended_status,
    live_status,
    refused_status,
    suspended_status,
)
from xeontrain_operator.reconcile.story import tell
from xeontrain_operator.settings import Settings

OUR_NAME = "xeontrain.dev/operator"
# A claim is not watched, and an earlier job's children may go without an event that names this one.
REFUSED_SECONDS = 10.0
LEFTOVER_SECONDS = 2.0
# A set makes its pods, and a kubelet its containers, sooner than this where nothing stands in the way.
PROMPT_SECONDS = 3.0
SLOW_SECONDS = 10.0


def decide(observed: Observed, *, settings: Settings, now: datetime) -> Decision:
    """What to do next for one job. Never raises for anything that a person or a pod may have written."""
    try:
        job = parse_job(observed.job)
    except InvalidJobError as error:
        return _unreadable(observed, error, now=now)
    situation = Situation(job=job, observed=observed, settings=settings, now=now)
    if is_terminating(observed.job) or job.spec.run_policy.managed_by not in (None, OUR_NAME):
        return Decision(status=dict(observed.job.get("status") or {}))
    if _has_ended(situation):
        return _after_the_end(situation)
    acceptance = accept(situation)
    if not acceptance.accepted:
        new = refused_status(situation, acceptance)
        return _decision(situation, new, requeue=[REFUSED_SECONDS])
    return _live(situation, acceptance)


def _has_ended(situation: Situation) -> bool:
    conditions = situation.status.conditions
    return c.is_true(conditions, c.SUCCEEDED) or c.is_true(conditions, c.FAILED)


def _live(situation: Situation, acceptance: Acceptance) -> Decision:
    counted = count(situation)
    outcome = judge(situation, counted=counted)
    if outcome is not None:
        new = ended_status(situation, outcome=outcome, counted=counted)
        # Its children are cleaned by the next reconcile, once the end is on record.
        return _decision(situation, new, requeue=[0.0], status_first=True)
    if situation.spec.run_policy.suspend:
        return _suspended(situation, acceptance, counted)
    return _running(situation, acceptance, counted)


def _suspended(situation: Situation, acceptance: Acceptance, counted: Counted) -> Decision:
    """The set goes rather than being scaled: what may change meanwhile belongs to a new template. Its
    pods get SIGTERM and their grace; the Service stays, so that they can agree on where to stop."""
    found, lost = situation.stateful_set, node_loss.release(situation)
    actions: list[Action] = [*lost.actions]
    if found is not None and not is_terminating(found):
        metadata = found["metadata"]
        actions.append(Delete(kind="StatefulSet", name=metadata["name"], uid=metadata["uid"]))
    new = suspended_status(situation, acceptance=acceptance, counted=counted)
    return _decision(
        situation,
        new,
        actions=actions,
        requeue=[lost.requeue_seconds],
        ask_nodes=lost.ask_nodes,
    )


def _running(situation: Situation, acceptance: Acceptance, counted: Counted) -> Decision:
    lost, refused_seconds = node_loss.release(situation), admission.wait_seconds(situation)
    yields = yielding.judge_yielding(situation)
    stands = refused_seconds is not None or yields.seconds is not None
    replicas = 0 if stands else situation.spec.workers
    joining, late = joins.look(situation), joins.remove(situation, counted.removed)
    actions = [*lost.actions, *make_children(situation), *scale(situation, replicas=replicas), *late]
    ask_events, look_again = _unexplained(situation)
    return _decision(
        situation,
        live_status(situation, acceptance=acceptance, counted=counted),
        actions=actions,
        requeue=[
            lost.requeue_seconds,
            refused_seconds,
            yields.look_again,
            deadline_seconds(situation),
            look_again,
            LEFTOVER_SECONDS if _waits_for_earlier(situation) else None,
            SLOW_SECONDS if situation.all_run and situation.report is None else None,
            SLOW_SECONDS if joining.absent else None,
        ],
        # That a pod did not join is on record before it goes: it is counted once.
        status_first=bool(late) or yields.seconds is not None,
        ask_launcher=0 in situation.running,
        ask_workers=joining.ask,
        ask_events=ask_events,
        ask_nodes=lost.ask_nodes,
        ask_rivals=yields.ask,
    )


def _waits_for_earlier(situation: Situation) -> bool:
    return bool(situation.leftovers) or (situation.stateful_set is None and bool(situation.old_pods))


def _unexplained(situation: Situation) -> tuple[bool, float | None]:
    """Whether warnings have to be read to learn why workers do not run, and when to look again.

    Not at once: most pods are on their way, and a thousand jobs would be a thousand questions.
    """
    found = situation.stateful_set
    if found is None or situation.all_run:
        return False, None
    if situation.young_causes:
        return False, PROMPT_SECONDS
    silent: list[Document] = [pod for pod in situation.pods.values() if _is_silent(pod)]
    if len(situation.pods) < situation.spec.workers and (found.get("spec") or {}).get("replicas"):
        silent.append(found)
    if not silent:
        return False, None
    oldest = max(situation.age_seconds(child) for child in silent)
    if oldest < PROMPT_SECONDS:
        return False, PROMPT_SECONDS - oldest
    return True, PROMPT_SECONDS if oldest < 30 else SLOW_SECONDS


def _is_silent(pod: Document) -> bool:
    """Bound to a node, not started, and giving no reason that can be read off the pod."""
    refused = (pod.get("status") or {}).get("phase") == "Failed"
    if is_terminating(pod) or refused or node_of(pod) is None:
        return False
    state = trainer_status(pod).get("state") or {}
    if "running" in state or "terminated" in state:
        return False
    return (state.get("waiting") or {}).get("reason") in (None, "ContainerCreating", "PodInitializing")


def _after_the_end(situation: Situation) -> Decision:
    lost, cleanup = node_loss.release(situation), clean_up(situation)
    new = cleaned_status(situation, message=cleanup.message)
    return _decision(
        situation,
        new,
        actions=[*lost.actions, *cleanup.actions],
        requeue=[lost.requeue_seconds, cleanup.requeue_seconds],
        ask_nodes=lost.ask_nodes,
        finished=cleanup.done,
    )


def _decision(
    situation: Situation,
    new: XeonTrainJobStatus,
    *,
    actions: Iterable[Action] = (),
    requeue: Iterable[float | None] = (),
    **more: Any,
) -> Decision:
    actions, old = tuple(actions), situation.status
    makes_set = any(isinstance(action, Create) and action.kind == "StatefulSet" for action in actions)
    workers = situation.spec.workers
    sentence = f"StatefulSet {situation.job.metadata.name} with {workers} worker{'s' if workers > 1 else ''}."
    status = new.to_dict()
    # The same decision may be taken twice before its effects are seen; what it says is said once.
    is_news = status != dict(situation.observed.job.get("status") or {})
    events = tell(old, new, made_workers=sentence if makes_set else None) if is_news else []
    waits = [wait for wait in requeue if wait is not None]
    return Decision(
        actions=actions,
        status=status,
        events=tuple(events),
        requeue_seconds=min(waits, default=None),
        **more,
    )


def _unreadable(observed: Observed, error: InvalidJobError, *, now: datetime) -> Decision:
    """A job that was written past this operator's schema: said in `Accepted`, by hand, for its status may
    be what cannot be read."""
    status = dict(observed.job.get("status") or {})
    if any(path.startswith("status") for path, _ in error.problems):
        status = {}
    message = "; ".join(f"{path}: {text}" for path, text in error.problems[:16])
    try:
        old = XeonTrainJobStatus.model_validate(status)
    except ValueError:
        old = XeonTrainJobStatus()
    conditions: tuple[Condition, ...] = c.set_condition(
        old.conditions, type=c.ACCEPTED, status="False", reason=c.INVALID_SPEC, message=message, now=now
    )
    new = old.model_copy(update={"conditions": conditions, "phase": old.phase or "Pending"})
    events = tell(old, new, made_workers=None)
    return Decision(status=new.to_dict(), events=tuple(events))
