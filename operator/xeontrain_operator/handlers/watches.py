"""What the watches bring goes into the cache, and the job's key into the queue.

No handler waits, asks or decides: kopf processes each event of a burst, one after another.
"""

from __future__ import annotations

from typing import Any

import kopf

from xeontrain_operator.handlers.runtime import Runtime
from xeontrain_operator.kube import kinds
from xeontrain_operator.kube.kinds import Kind


@kopf.on.event(kinds.JOB.group, kinds.JOB.version, kinds.JOB.plural)
async def job(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """A job was made, changed or deleted."""
    runtime: Runtime = memo.runtime
    runtime.job_event(event["type"], _named(event, kinds.JOB))


@kopf.on.event(kinds.STATEFUL_SET.group, kinds.STATEFUL_SET.version, kinds.STATEFUL_SET.plural)
async def stateful_set(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """A set of ours was made, changed or deleted."""
    _child(event, memo, kinds.STATEFUL_SET)


@kopf.on.event(kinds.SERVICE.group, kinds.SERVICE.version, kinds.SERVICE.plural)
async def service(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """A Service of ours was made, changed or deleted."""
    _child(event, memo, kinds.SERVICE)


@kopf.on.event(kinds.CONFIG_MAP.group, kinds.CONFIG_MAP.version, kinds.CONFIG_MAP.plural)
async def config_map(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """A ConfigMap of ours was made, changed or deleted."""
    _child(event, memo, kinds.CONFIG_MAP)


@kopf.on.event(kinds.NETWORK_POLICY.group, kinds.NETWORK_POLICY.version, kinds.NETWORK_POLICY.plural)
async def network_policy(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """A NetworkPolicy of ours was made, changed or deleted."""
    _child(event, memo, kinds.NETWORK_POLICY)


@kopf.on.event(kinds.POD.group, kinds.POD.version, kinds.POD.plural)
async def pod(event: kopf.RawEvent, memo: kopf.Memo, **_: Any) -> None:
    """A trainer pod was made, changed or deleted."""
    _child(event, memo, kinds.POD)


def _child(event: kopf.RawEvent, memo: kopf.Memo, kind: Kind) -> None:
    runtime: Runtime = memo.runtime
    runtime.child_event(event["type"], _named(event, kind))


def _named(event: kopf.RawEvent, kind: Kind) -> dict[str, Any]:
    """The object with its kind, which those of an initial listing lack."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **event["object"]}
