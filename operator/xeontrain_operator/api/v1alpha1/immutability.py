"""What may change while a job lives: one table, generated as CEL rules on `spec`.

A transition rule on the field itself would be bypassed by removing the field and adding it again, so the
rules stand on `spec` and compare presence too.

The API server's CEL is blind in one place (seen with 1.37): two objects of a preserve-unknown piece that hold
as many keys, but other keys, are equal to it. So an `emptyDir` can become a `hostPath` in a live job's spec.
Its pods do not change, because the template is frozen; `xeontrain validate` has no such gap.
"""

from __future__ import annotations

from typing import Final, Literal

from xeontrain_operator.api.v1alpha1.base import cel

Changes = Literal["Never", "WhileSuspended", "Always"]

CHANGES: Final[dict[str, Changes]] = {
    "workers": "Never",
    "ranksPerWorker": "Never",
    "image": "Never",
    "imagePullPolicy": "Never",
    "imagePullSecrets": "Never",
    "resources": "WhileSuspended",
    "pinning": "Never",
    "nodePool": "Never",
    "placement": "WhileSuspended",
    "distributed": "Never",
    "training": "Never",
    "command": "Never",
    "args": "Never",
    "env": "Never",
    "envFrom": "Never",
    "volumes": "Never",
    "volumeMounts": "Never",
    "workingDir": "Never",
    "storage": "Never",
    "checkpoint": "Never",
    "runPolicy.suspend": "Always",
    "runPolicy.backoffLimit": "Never",
    "runPolicy.activeDeadlineSeconds": "Always",
    "runPolicy.preRunningDeadlineSeconds": "Always",
    "runPolicy.gracePeriodSeconds": "Never",
    "runPolicy.ttlSecondsAfterFinished": "Always",
    "runPolicy.cleanPodPolicy": "Never",
    "runPolicy.managedBy": "Never",
    "podTemplate": "Never",
}
"""Field path below `spec` -> when it may change; every field of `spec` and of `runPolicy` stands here."""

_MESSAGES: Final = {
    "Never": "cannot change: delete the job and create it again",
    "WhileSuspended": "can change only while the job is suspended: set runPolicy.suspend: true first",
}


def immutability_rules() -> tuple[dict[str, str], ...]:
    """Return the transition rules of the table, for `x-kubernetes-validations` of `spec`."""
    return tuple(
        cel(_rule(field, changes), _MESSAGES[changes], field_path=f".{field}")
        for field, changes in CHANGES.items()
        if changes != "Always"
    )


def _rule(field: str, changes: Changes) -> str:
    new, old = f"self.{field}", f"oldSelf.{field}"
    same = f"has({new}) == has({old}) && (!has({new}) || {new} == {old})"
    # The state before the change decides: one request must not both suspend and change.
    return same if changes == "Never" else f"oldSelf.runPolicy.suspend || ({same})"
