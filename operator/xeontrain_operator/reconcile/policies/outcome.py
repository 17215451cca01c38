"""Whether the job has ended, and how: the verdict first, then what the operator judges by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xeontrain_operator.api import conditions as c
from xeontrain_operator.reconcile.causes import Cause
from xeontrain_operator.reconcile.policies.admission import stopped_by_admission
from xeontrain_operator.reconcile.policies.failures import Counted, describe_failure
from xeontrain_operator.reconcile.policies.pinning import find_not_guaranteed
from xeontrain_operator.reconcile.policies.unstartable import unstartable
from xeontrain_operator.reconcile.situation import Situation
from xeontrain_operator.reconcile.verdict import Verdict, find_verdict

# Waiting heals none of these: a person has to change something, and the spec cannot change.
_HOPELESS = frozenset(
    {c.IMAGE_PULL_FAILED, c.CONTAINER_CONFIG_ERROR, c.VOLUME_NOT_MOUNTED, c.TOPOLOGY_MISFIT, c.POD_REJECTED}
)
# The nodes or the namespace's rules stand in the way, so that no pod is there to be placed.
_BEFORE_A_NODE = frozenset({c.TOPOLOGY_MISFIT, c.POD_REJECTED})
# What the API server says when a webhook is away: it comes back.
_WEBHOOK_AWAY = "failed calling webhook"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of a job."""

    succeeded: bool
    reason: str
    message: str
    verdict: Verdict | None = None


def judge(situation: Situation, *, counted: Counted) -> Outcome | None:
    """The job's outcome; None while it lives."""
    verdict = find_verdict(
        worker_zero=situation.pods.get(0), report=situation.observed.launcher, uid=situation.observed.uid
    )
    if verdict is not None:
        return _by_verdict(situation, verdict)
    checks = (
        _unstartable(situation),
        _too_many_failures(situation, counted),
        _not_pinned(situation),
        _active_deadline(situation),
        _hopeless(situation),
    )
    return next((outcome for outcome in checks if outcome is not None), None)


def deadline_seconds(situation: Situation) -> float | None:
    """Seconds until the next deadline that could end the job; None if none runs."""
    policy, waits = situation.spec.run_policy, []
    if policy.active_deadline_seconds is not None and situation.status.start_time is not None:
        waits.append(policy.active_deadline_seconds - situation.since_seconds(situation.status.start_time))
    cause = hopeless_cause(situation)
    if cause is not None:
        waits.append(policy.pre_running_deadline_seconds - _hopeless_seconds(situation, cause))
    return max(0.0, min(waits)) if waits else None


def hopeless_cause(situation: Situation) -> Cause | None:
    """The gravest cause that waiting cannot heal."""
    stopped = stopped_by_admission(situation)
    if stopped is not None:
        return Cause(reason=stopped.reason, message=stopped.message)
    return next((cause for cause in situation.causes if _is_hopeless(cause)), None)


def _is_hopeless(cause: Cause) -> bool:
    return cause.reason in _HOPELESS and _WEBHOOK_AWAY not in cause.message


def _by_verdict(situation: Situation, verdict: Verdict) -> Outcome:
    if verdict.succeeded:
        message = _success_in_words(situation, verdict)
        return Outcome(succeeded=True, reason=c.ALL_RANKS_SUCCEEDED, message=message, verdict=verdict)
    failure: Mapping[str, object] = verdict.failure
    known = {c.USER_ERROR, c.BACKOFF_LIMIT_EXCEEDED, c.NOT_PINNED, c.PLAN_IMPOSSIBLE}
    reason = str(failure.get("reason"))
    message = describe_failure(situation, failure)
    if reason == c.BACKOFF_LIMIT_EXCEEDED:
        message = _limit_in_words(situation, failures=verdict.failures, last=message)
    return Outcome(
        succeeded=False,
        reason=reason if reason in known else c.USER_ERROR,
        message=message,
        verdict=verdict,
    )


def _success_in_words(situation: Situation, verdict: Verdict) -> str:
    workers = situation.spec.workers
    who = "The worker has" if workers == 1 else f"All {workers} workers have"
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in list(verdict.metrics.items())[:8])
    return f"{who} finished round {verdict.round}{f': {metrics}' if metrics else ''}."


def _limit_in_words(situation: Situation, *, failures: int, last: str) -> str:
    limit = situation.spec.run_policy.backoff_limit
    times = "1 failure" if failures == 1 else f"{failures} failures"
    return f"{times}, and spec.runPolicy.backoffLimit is {limit}. The last: {last}"


def _unstartable(situation: Situation) -> Outcome | None:
    message = unstartable(situation)
    return None if message is None else Outcome(succeeded=False, reason=c.USER_ERROR, message=message)


def _too_many_failures(situation: Situation, counted: Counted) -> Outcome | None:
    failures = counted.restarts.failures
    if failures <= situation.spec.run_policy.backoff_limit:
        return None
    last = counted.restarts.last_reason or "no cause was reported."
    return Outcome(
        succeeded=False,
        reason=c.BACKOFF_LIMIT_EXCEEDED,
        message=_limit_in_words(situation, failures=failures, last=last),
    )


def _not_pinned(situation: Situation) -> Outcome | None:
    """The launcher sees its CPUs but not the pod's class, without which they are nobody's own. Judged from
    the pod's first moment, so that mostly no container of it has run."""
    if situation.spec.pinning != "Required":
        return None
    shared = find_not_guaranteed(situation)
    if shared is None:
        return None
    message = f"spec.pinning is Required, but {c.NOT_GUARANTEED}: {shared}"
    return Outcome(succeeded=False, reason=c.NOT_PINNED, message=message)


def _active_deadline(situation: Situation) -> Outcome | None:
    deadline, started = situation.spec.run_policy.active_deadline_seconds, situation.status.start_time
    if deadline is None or started is None or situation.since_seconds(started) < deadline:
        return None
    message = f"The job has run for spec.runPolicy.activeDeadlineSeconds ({deadline} s) without an end."
    return Outcome(succeeded=False, reason=c.DEADLINE_EXCEEDED, message=message)


def _hopeless(situation: Situation) -> Outcome | None:
    cause = hopeless_cause(situation)
    deadline = situation.spec.run_policy.pre_running_deadline_seconds
    if cause is None or _hopeless_seconds(situation, cause) < deadline:
        return None
    message = f"{cause.message} So for spec.runPolicy.preRunningDeadlineSeconds ({deadline} s)."
    return Outcome(succeeded=False, reason=cause.reason, message=message)


def _hopeless_seconds(situation: Situation, cause: Cause) -> float:
    """For how long the job could have run but for this cause: the time without nodes is not counted,
    except where it takes away the very chance of one."""
    running, placed = (
        c.find_condition(situation.status.conditions, type_) for type_ in (c.RUNNING, c.PLACED)
    )
    if running is None or running.status != "False":
        return 0.0
    waited = situation.since_seconds(running.last_transition_time)
    if cause.reason in _BEFORE_A_NODE or placed is None or placed.status != "True":
        return waited
    return min(waited, situation.since_seconds(placed.last_transition_time))
