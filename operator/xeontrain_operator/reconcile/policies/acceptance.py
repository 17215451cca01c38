"""Whether a job can be carried out as it is written: what only the cluster knows is checked here."""

from __future__ import annotations

from dataclasses import dataclass

from xeontrain_operator.api import conditions as c
from xeontrain_operator.api.advice import backend_of_script
from xeontrain_operator.builders.placement import selector_conflicts
from xeontrain_operator.reconcile.observed import Document
from xeontrain_operator.reconcile.situation import Situation
from xeontrain_operator.reconcile.text import counted


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """The condition Accepted."""

    accepted: bool
    reason: str
    message: str


def accept(situation: Situation) -> Acceptance:
    """Judged until the set is made; from then on everything that was judged is frozen in it."""
    if situation.stateful_set is not None and c.is_true(situation.status.conditions, c.ACCEPTED):
        kept = c.find_condition(situation.status.conditions, c.ACCEPTED)
        if kept is not None:
            return Acceptance(accepted=True, reason=kept.reason, message=kept.message)
    checks = (_foreign, _node_pool, _placement, _claim, _api_server)
    refusals = (refusal for check in checks if (refusal := check(situation)) is not None)
    return next(refusals, None) or _accepted(situation)


def _refused(reason: str, message: str) -> Acceptance:
    return Acceptance(accepted=False, reason=reason, message=message)


def _accepted(situation: Situation) -> Acceptance:
    spec = situation.spec
    workers, cpus = counted(spec.workers, "worker"), counted(spec.resources.cpu, "CPU")
    message = (
        f"{workers} of {cpus} and {spec.resources.memory} of memory{' each' if spec.workers > 1 else ''}."
    )
    backend = backend_of_script(spec)
    if backend is not None:
        message += f" spec.distributed.backend {backend}."
    ranks = spec.workers * (spec.ranks_per_worker if isinstance(spec.ranks_per_worker, int) else 1)
    batch = spec.training.hyperparameters.batch_size if spec.training else ranks
    if batch % ranks == 0:
        return Acceptance(accepted=True, reason=c.VALID, message=message)
    uneven = (
        f"{message} spec.training.hyperparameters.batchSize: {batch} does not divide by {ranks} ranks, so "
        "some take one sample more and the others wait for them; the loss stays exact."
    )
    return Acceptance(accepted=True, reason=c.BATCH_NOT_DIVISIBLE, message=uneven)


def _foreign(situation: Situation) -> Acceptance | None:
    if not situation.foreign:
        return None
    names = " and ".join(f"{child['kind']} {child['metadata']['name']}" for child in situation.foreign)
    return _refused(
        c.FOREIGN_OBJECT,
        f"metadata.name: {names} exists in this namespace and is not this job's: give the job another name, "
        "or delete that object.",
    )


def _node_pool(situation: Situation) -> Acceptance | None:
    pool, declared = situation.spec.node_pool, situation.settings.node_pools
    if pool is None or pool in declared:
        return None
    choice = f"choose one of {', '.join(sorted(declared))}" if declared else "leave it out"
    return _refused(
        c.UNKNOWN_NODE_POOL,
        f"spec.nodePool: {pool!r} is not declared in the chart's values (nodePools): {choice}, or have it "
        "declared.",
    )


def _placement(situation: Situation) -> Acceptance | None:
    conflicts = selector_conflicts(situation.job, settings=situation.settings)
    return _refused(c.PLACEMENT_CONFLICT, f"spec.placement: {'; '.join(conflicts)}.") if conflicts else None


def _claim(situation: Situation) -> Acceptance | None:
    storage = situation.spec.storage
    if storage is None or storage.claim is None:
        return None
    claim = next((x for x in situation.observed.claims if x["metadata"]["name"] == storage.claim), None)
    if claim is None:
        return _refused(
            c.CLAIM_NOT_FOUND,
            f"spec.storage.claim: there is no PersistentVolumeClaim {storage.claim!r} in namespace "
            f"{situation.job.metadata.namespace}: create it, or write storage.size for new claims.",
        )
    return _sharing(situation, claim)


def _sharing(situation: Situation, claim: Document) -> Acceptance | None:
    modes = set((claim.get("spec") or {}).get("accessModes") or ())
    packed = situation.spec.placement.spread == "Packed"
    # ReadWriteOnce is once a node; only pods on the same node share such a claim.
    enough = {"ReadWriteMany", "ReadWriteOnce"} if packed else {"ReadWriteMany"}
    if situation.spec.workers == 1 or modes & enough:
        return None
    which = ", ".join(sorted(modes)) or "of no access mode"
    return _refused(
        c.CLAIM_NOT_SHARED,
        f"spec.storage.claim: {claim['metadata']['name']} is {which} and {situation.spec.workers} workers "
        "are to mount it: use a ReadWriteMany claim, or storage.size, or (for ReadWriteOnce) "
        "placement.spread: Packed.",
    )


def _api_server(situation: Situation) -> Acceptance | None:
    errors = (error for error in situation.observed.apply_errors if error.verb == "create")
    error = next(errors, None)
    if error is None:
        return None
    return _refused(
        c.REJECTED_BY_API_SERVER,
        f"spec: the API server refuses the {error.kind} {error.name} ({error.status_code} {error.reason}): "
        f"{error.message}",
    )
