"""Changes of a job that are taken and that are refused: per field a change, a removal and an addition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.contract.cases.edits import COMMAND, REMOVED, TRAINING, Job, edited


@dataclass(frozen=True)
class Change:
    """A job before and after. `refused_at` is the field that the answer names; None: the change is taken."""

    id: str
    before: Job
    after: Job
    refused_at: str | None = None
    server_is_blind: bool = False
    """The API server takes what we refuse: its CEL equality misses it (see `immutability`)."""


# Per field: two values that are valid, whether the field may be absent, and the job that it fits.
_FIELDS: tuple[tuple[str, Any, Any, Job], ...] = (
    ("workers", 2, 3, TRAINING),
    ("ranksPerWorker", 2, "Auto", TRAINING),
    ("image", "a:1", "a:2", TRAINING),
    ("imagePullPolicy", "Always", "Never", TRAINING),
    ("imagePullSecrets", [{"name": "a"}], [{"name": "b"}], TRAINING),
    ("pinning", "Required", "Disabled", TRAINING),
    ("nodePool", "a", "b", TRAINING),
    ("distributed", {"port": 30000}, {"port": 30001}, TRAINING),
    ("args", ["a"], ["b"], COMMAND),
    ("env", [{"name": "A", "value": "1"}], [{"name": "A", "value": "2"}], TRAINING),
    ("envFrom", [{"secretRef": {"name": "a"}}], [{"secretRef": {"name": "b"}}], TRAINING),
    ("volumes", [{"name": "a", "emptyDir": {}}], [{"name": "a", "emptyDir": {"sizeLimit": "1Gi"}}], TRAINING),
    ("workingDir", "/a", "/b", COMMAND),
    ("storage", {"claim": "a"}, {"claim": "b"}, TRAINING),
    ("checkpoint", {"keep": 3}, {"keep": 4}, TRAINING),
    ("podTemplate", {"labels": {"a": "1"}}, {"labels": {"a": "2"}}, TRAINING),
    ("runPolicy.backoffLimit", 1, 2, TRAINING),
    ("runPolicy.gracePeriodSeconds", 30, 60, TRAINING),
    ("runPolicy.cleanPodPolicy", "All", "None", TRAINING),
    ("runPolicy.managedBy", "xeontrain.dev/operator", "kueue.x-k8s.io/multikueue", TRAINING),
)

_FREE: tuple[tuple[str, Any, Any], ...] = (
    ("runPolicy.suspend", True, False),
    ("runPolicy.activeDeadlineSeconds", 60, 120),
    ("runPolicy.preRunningDeadlineSeconds", 60, 120),
    ("runPolicy.ttlSecondsAfterFinished", 60, 120),
)

_WHILE_SUSPENDED: tuple[tuple[str, Any, Any], ...] = (
    ("placement", {"spread": "Packed"}, {"affinity": {"podAffinity": {}}}),
    ("resources.memory", "16Gi", "32Gi"),
    ("resources.cpu", 8, 4),
)


def _frozen() -> Iterator[Change]:
    for field, one, other, base in _FIELDS:
        path = f"spec.{field}"
        with_one, with_other = edited(base, {path: one}), edited(base, {path: other})
        without = edited(base, {path: REMOVED})
        yield Change(f"change-{field}", with_one, with_other, path)
        yield Change(f"remove-{field}", with_one, without, path)
        yield Change(f"add-{field}", without, with_one, path)


def _free() -> Iterator[Change]:
    for field, one, other in _FREE:
        path = f"spec.{field}"
        with_one, with_other = edited(TRAINING, {path: one}), edited(TRAINING, {path: other})
        without = edited(TRAINING, {path: REMOVED})
        yield Change(f"change-{field}", with_one, with_other)
        yield Change(f"remove-{field}", with_one, without)
        yield Change(f"add-{field}", without, with_one)


def _while_suspended() -> Iterator[Change]:
    for field, one, other in _WHILE_SUSPENDED:
        path, top = f"spec.{field}", f"spec.{field.split('.')[0]}"
        before, after = edited(TRAINING, {path: one}), edited(TRAINING, {path: other})
        suspend = {"spec.runPolicy.suspend": True}
        yield Change(f"change-{field}-running", before, after, top)
        yield Change(f"change-{field}-suspended", edited(before, suspend), edited(after, suspend))
        yield Change(f"change-{field}-and-resume", edited(before, suspend), after)
        yield Change(f"change-{field}-and-suspend", before, edited(after, suspend), top)


def _special() -> Iterator[Change]:
    yield Change("change-nothing", TRAINING, TRAINING)
    yield Change("write-a-default-out", TRAINING, edited(TRAINING, {"spec.workers": 1}))
    yield Change("label-the-job", TRAINING, edited(TRAINING, {"metadata.labels": {"a": "b"}}))
    yield Change(
        "change-training",
        TRAINING,
        edited(TRAINING, {"spec.training.hyperparameters.epochs": 2}),
        "spec.training",
    )
    yield Change("change-command", COMMAND, edited(COMMAND, {"spec.command": ["false"]}), "spec.command")
    to_command = edited(COMMAND, {"spec.resources": TRAINING["spec"]["resources"]})
    yield Change("training-to-command", TRAINING, to_command, "spec.training")
    volumes = {"spec.volumes": [{"name": "a", "emptyDir": {}}]}
    mounted = {"spec.volumeMounts": [{"name": "a", "mountPath": "/a"}]}
    moved = {"spec.volumeMounts": [{"name": "a", "mountPath": "/b"}]}
    base = edited(TRAINING, volumes)
    path = "spec.volumeMounts"
    yield Change("change-volumeMounts", edited(base, mounted), edited(base, moved), path)
    yield Change("remove-volumeMounts", edited(base, mounted), base, path)
    yield Change("add-volumeMounts", base, edited(base, mounted), path)
    other_source = {"spec.volumes": [{"name": "a", "hostPath": {"path": "/x"}}]}
    yield Change(
        "swap-a-volume-source", base, edited(TRAINING, other_source), "spec.volumes", server_is_blind=True
    )


CHANGES: tuple[Change, ...] = (*_frozen(), *_free(), *_while_suspended(), *_special())
