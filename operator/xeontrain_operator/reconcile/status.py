"""The whole new status of a job: conditions, phase and figures, from one situation."""

from __future__ import annotations

from typing import Any

from xeontrain_operator.api import conditions as c
from xeontrain_operator.api.v1alpha1 import (
    Condition,
    Phase,
    ResultStatus,
    TriState,
    WorkersStatus,
    WorkerStatus,
    XeonTrainJobStatus,
)
from xeontrain_operator.builders.names import claim_name, log_config_map_name
from xeontrain_operator.builders.pod import resolve_image
from xeontrain_operator.constants import CONTAINER_NAME, STORAGE_DIR
from xeontrain_operator.reconcile.causes import Cause
from xeontrain_operator.reconcile.observed import is_terminating
from xeontrain_operator.reconcile.pods import node_of
from xeontrain_operator.reconcile.policies.acceptance import Acceptance
from xeontrain_operator.reconcile.policies.admission import (
    RETRY_SECONDS,
    refusal,
    stopped_by_admission,
    wait_seconds,
)
from xeontrain_operator.reconcile.policies.children import judge_children
from xeontrain_operator.reconcile.policies.failures import Counted
from xeontrain_operator.reconcile.policies.outcome import Outcome
from xeontrain_operator.reconcile.policies.phase import live_phase
from xeontrain_operator.reconcile.policies.pinning import judge_pinning
from xeontrain_operator.reconcile.policies.processors import judge_precision, judge_uniform
from xeontrain_operator.reconcile.policies.progress import (
    finished_progress,
    read_cpu,
    read_progress,
    stopped_progress,
)
from xeontrain_operator.reconcile.policies.resume import judge_resume
from xeontrain_operator.reconcile.policies.running import judge_running
from xeontrain_operator.reconcile.policies.usage import count_usage
from xeontrain_operator.reconcile.policies.workers import count_workers, forget_pod, list_workers
from xeontrain_operator.reconcile.policies.yielding import Yielding, judge_yielding, yielded
from xeontrain_operator.reconcile.situation import Situation
from xeontrain_operator.reconcile.verdict import Verdict
from xeontrain_operator.reconcile.word import Word


def refused_status(situation: Situation, acceptance: Acceptance) -> XeonTrainJobStatus:
    """Of a job that cannot be carried out as it is written."""
    conditions = _set(situation, situation.status.conditions, c.ACCEPTED, _accepted_word(acceptance))
    message = "Nothing is made while the job is not accepted."
    word = Word(status="False", reason=c.CREATING, message=message)
    conditions = _set(situation, conditions, c.RUNNING, word)
    return _with(situation, phase="Pending", conditions=conditions)


def live_status(situation: Situation, *, acceptance: Acceptance, counted: Counted) -> XeonTrainJobStatus:
    """Of a job that is to run."""
    phase = live_phase(situation)
    started = situation.status.start_time or (c.timestamp(situation.now) if situation.all_run else None)
    progress, entries = read_progress(situation), _worker_entries(situation, counted)
    if judge_yielding(situation).seconds is not None:
        entries = tuple(forget_pod(entry) for entry in entries)
    conditions = _live_conditions(situation, acceptance=acceptance, counted=counted, phase=phase)
    return _with(
        situation,
        phase=phase,
        conditions=_judged(situation, conditions, entries=entries),
        workers=count_workers(situation),
        worker_statuses=entries,
        progress=progress if phase in ("Running", "Starting") else stopped_progress(progress),
        cpu=read_cpu(situation),
        restarts=counted.restarts,
        usage=count_usage(situation),
        start_time=started,
        image=_image(situation),
    )


def suspended_status(situation: Situation, *, acceptance: Acceptance, counted: Counted) -> XeonTrainJobStatus:
    """Of a job that is to have no pods for now."""
    conditions = _set(situation, situation.status.conditions, c.ACCEPTED, _accepted_word(acceptance))
    message = "spec.runPolicy.suspend is true: the job has no pods until it is false again."
    suspended = Word(status="True", reason=c.SUSPENDED_BY_USER, message=message)
    stands = Word(status="False", reason=c.SUSPENDED_BY_USER, message="The job is suspended.")
    conditions = _set(situation, conditions, c.SUSPENDED, suspended)
    conditions = _with_children(situation, _set(situation, conditions, c.RUNNING, stands))
    return _with(
        situation,
        phase="Suspended",
        conditions=conditions,
        workers=count_workers(situation),
        worker_statuses=tuple(forget_pod(entry) for entry in list_workers(situation, counted=counted)),
        progress=stopped_progress(situation.status.progress),
        restarts=counted.restarts,
        usage=count_usage(situation),
        start_time=None,
    )


def ended_status(situation: Situation, *, outcome: Outcome, counted: Counted) -> XeonTrainJobStatus:
    """Of a job that has its outcome; from here on only the word about its children changes."""
    ended = Word(status="True", reason=outcome.reason, message=outcome.message)
    conditions = situation.status.conditions
    if outcome.succeeded:
        conditions = _set(situation, conditions, c.SUCCEEDED, ended)
    else:
        conditions = _set(situation, conditions, c.FAILED, ended)
        not_succeeded = Word(status="False", reason=outcome.reason, message=outcome.message)
        conditions = _set(situation, conditions, c.SUCCEEDED, not_succeeded)
    finished = Word(status="False", reason=c.FINISHED, message="The job has ended; its children go next.")
    conditions = _set(situation, conditions, c.RUNNING, finished)
    progress, workers = read_progress(situation), situation.spec.workers
    entries = _worker_entries(situation, counted)
    everyone = WorkersStatus(desired=workers, ready=workers, display=f"{workers}/{workers}")
    return _with(
        situation,
        phase="Succeeded" if outcome.succeeded else "Failed",
        workers=everyone if outcome.succeeded else count_workers(situation),
        conditions=_judged(situation, conditions, entries=entries, verdict=outcome.verdict),
        progress=finished_progress(progress) if outcome.succeeded else stopped_progress(progress),
        cpu=read_cpu(situation),
        restarts=_all_failures(counted, outcome),
        worker_statuses=entries,
        result=_result(situation, outcome),
        usage=count_usage(situation, over=True),
        completion_time=c.timestamp(situation.now),
    )


def cleaned_status(situation: Situation, *, message: str) -> XeonTrainJobStatus:
    """Of a finished job whose children are being cleaned."""
    word = Word(status="False", reason=c.FINISHED, message=message)
    conditions = _set(situation, situation.status.conditions, c.RUNNING, word)
    return situation.status.model_copy(update={"conditions": _with_children(situation, conditions)})


def _with(situation: Situation, **update: Any) -> XeonTrainJobStatus:
    generation = situation.job.metadata.generation
    return situation.status.model_copy(update={"observed_generation": generation, **update})


def _set(
    situation: Situation, conditions: tuple[Condition, ...], type_: str, word: Word
) -> tuple[Condition, ...]:
    return c.set_condition(
        conditions,
        type=type_,
        status=word.status,
        reason=word.reason,
        message=word.message,
        now=situation.now,
        observed_generation=situation.job.metadata.generation,
    )


def _live_conditions(
    situation: Situation, *, acceptance: Acceptance, counted: Counted, phase: Phase
) -> tuple[Condition, ...]:
    words: list[tuple[str, Word | None]] = [
        (c.ACCEPTED, _accepted_word(acceptance)),
        (c.STORAGE, _storage_word(situation)),
        (c.PLACED, _placed_word(situation)),
        (c.RUNNING, judge_running(situation, counted=counted, phase=phase)),
        (c.SUSPENDED, _resumed_word(situation)),
        (c.CHILDREN, judge_children(situation)),
    ]
    conditions = situation.status.conditions
    for type_, word in words:
        if word is not None:
            conditions = _set(situation, conditions, type_, word)
    return conditions


def _with_children(situation: Situation, conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    word = judge_children(situation)
    return conditions if word is None else _set(situation, conditions, c.CHILDREN, word)


def _accepted_word(acceptance: Acceptance) -> Word:
    status: TriState = "True" if acceptance.accepted else "False"
    return Word(status=status, reason=acceptance.reason, message=acceptance.message)


def _storage_word(situation: Situation) -> Word:
    storage = situation.spec.storage
    if storage is None:
        what = "the model" if situation.spec.training is not None else "whatever the command writes"
        message = (
            f"spec.storage is not set: {what} and the result are lost with the pods, and a replaced pod "
            "begins anew. Write storage.size or storage.claim to keep them."
        )
        return Word(status="False", reason=c.NO_STORAGE, message=message)
    where = storage.claim or claim_name(situation.job.metadata, worker=0)
    return Word(status="True", reason=c.STORAGE_CONFIGURED, message=f"The claim {where} keeps the results.")


def _cause(situation: Situation, type_: str) -> Cause | None:
    return next((cause for cause in situation.causes if cause.condition == type_), None)


def _placed_word(situation: Situation) -> Word | None:
    refused = refusal(situation)
    if refused is not None:
        message = f"{refused.message} All pods are taken away and tried again after {RETRY_SECONDS:.0f} s."
        return Word(status="Unknown", reason=refused.reason, message=message)
    if wait_seconds(situation) is not None:
        return None
    yields = judge_yielding(situation)
    if yields.seconds is not None:
        if yielded(situation) is not None:
            return None
        return Word(status="Unknown", reason=c.YIELDED_NODES, message=_yield_in_words(situation, yields))
    workers = situation.spec.workers
    bound = len([pod for pod in situation.pods.values() if node_of(pod) and not is_terminating(pod)])
    stood = stopped_by_admission(situation) or yielded(situation)
    if stood is not None and bound == 0:
        return Word(status="False", reason=c.CREATING, message="The pods are tried again.")
    cause = _cause(situation, c.PLACED)
    if cause is not None:
        return Word(status="False", reason=cause.reason, message=cause.message)
    if bound >= workers:
        who = "The worker has" if workers == 1 else f"All {workers} workers have"
        return Word(status="True", reason=c.ALL_PLACED, message=f"{who} a node.")
    message = f"{bound} of {workers} workers have a node."
    # Not False: that is for a cause that is known and worth waiting for (`kubectl wait`).
    return Word(status="Unknown", reason=c.CREATING, message=message)


def _yield_in_words(situation: Situation, yields: Yielding) -> str:
    deadline = situation.spec.run_policy.pre_running_deadline_seconds
    return (
        "Only some of the workers have found a node within spec.runPolicy.preRunningDeadlineSeconds "
        f"({deadline} s), and job {yields.to}, which comes first, waits for nodes too. All pods are taken "
        "away to make room, and tried again once it has its nodes or is gone, or after "
        f"{yields.seconds or 0:.0f} s."
    )


def _resumed_word(situation: Situation) -> Word | None:
    if c.find_condition(situation.status.conditions, c.SUSPENDED) is None:
        return None
    return Word(status="False", reason=c.RESUMED, message="spec.runPolicy.suspend is false.")


def _judged(
    situation: Situation,
    conditions: tuple[Condition, ...],
    *,
    entries: tuple[WorkerStatus, ...],
    verdict: Verdict | None = None,
) -> tuple[Condition, ...]:
    """With what the launchers say of their CPUs; what was found before stands while they are silent."""
    conditions = _pinned(situation, conditions, verdict=verdict)
    found = {
        c.CPU_UNIFORM: judge_uniform(situation, entries=entries),
        c.PRECISION_NATIVE: judge_precision(situation),
        c.RESUME_INEXACT: judge_resume(situation),
    }
    for type_, finding in found.items():
        if finding is not None:
            conditions = _set(situation, conditions, type_, finding)
    return conditions


def _pinned(
    situation: Situation, conditions: tuple[Condition, ...], *, verdict: Verdict | None = None
) -> tuple[Condition, ...]:
    found = judge_pinning(situation, verdict=verdict)
    if found is not None:
        return _set(situation, conditions, c.CPU_PINNED, found)
    if c.find_condition(conditions, c.CPU_PINNED) is not None:
        return conditions
    message = "Not known before all workers have reported their CPUs."
    return _set(
        situation,
        conditions,
        c.CPU_PINNED,
        Word(status="Unknown", reason=c.NOT_PROVEN, message=message),
    )


def _worker_entries(situation: Situation, counted: Counted) -> tuple[WorkerStatus, ...]:
    entries = list_workers(situation, counted=counted)
    if wait_seconds(situation) is None:
        return entries
    # The operator takes these pods away itself: those that come after them replace nothing.
    gone = {
        entry.worker
        for entry in entries
        if entry.worker not in situation.pods or is_terminating(situation.pods[entry.worker])
    }
    return tuple(forget_pod(entry) if entry.worker in gone else entry for entry in entries)


def _image(situation: Situation) -> str:
    """What the pods run; before there are any, what they will run."""
    pod = next(iter(situation.pods.values()), None)
    containers = ((pod or {}).get("spec") or {}).get("containers") or ()
    running = next((item.get("image") for item in containers if item.get("name") == CONTAINER_NAME), None)
    known = situation.status.image if situation.stateful_set is not None else None
    return str(running or known or resolve_image(situation.job, settings=situation.settings))


def _all_failures(counted: Counted, outcome: Outcome) -> Any:
    """The coordinator's own count may be ahead: its last list may not have been heard."""
    restarts = counted.restarts
    ahead = outcome.verdict is not None and outcome.verdict.failures > restarts.failures
    if not ahead or outcome.verdict is None:
        return restarts
    failures = outcome.verdict.failures
    display = f"{failures} (+{restarts.preemptions})" if restarts.preemptions else str(failures)
    update = {"failures": failures, "display": display}
    if not outcome.succeeded:
        update["last_reason"] = outcome.message[:1024]
    return restarts.model_copy(update=update)


def _result(situation: Situation, outcome: Outcome) -> ResultStatus | None:
    verdict, keeps_pods = outcome.verdict, situation.spec.run_policy.clean_pod_policy == "None"
    log = None if keeps_pods or not situation.pods else log_config_map_name(situation.job.metadata)
    metrics = dict(verdict.metrics) if verdict is not None else {}
    model = _model_place(situation, verdict.model) if verdict is not None and verdict.model else None
    found = ResultStatus(metrics=metrics, model=model, log=log)
    return found if found != ResultStatus() else None


def _model_place(situation: Situation, path: str) -> str:
    """`<claim>:<path in it>` for a model in storage: the path in a container means nothing later."""
    storage = situation.spec.storage
    inside = path.removeprefix(f"{STORAGE_DIR}/")
    if storage is None or inside == path:
        return path
    if storage.claim is None:
        return f"{claim_name(situation.job.metadata, worker=0)}:{inside}"
    below = f"{storage.sub_path.strip('/')}/" if storage.sub_path else ""
    return f"{storage.claim}:{below}{inside}"
