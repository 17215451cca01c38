"""Events about a job, as `kubectl describe` shows them."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Any, Final

from xeontrain_operator import constants
from xeontrain_operator.reconcile.decision import JobEvent
from xeontrain_operator.reconcile.observed import Document

# The API server refuses longer ones.
MAX_MESSAGE: Final = 1024


def event_manifest(event: JobEvent, *, job: Document, now: datetime) -> dict[str, Any]:
    """A core/v1 Event, with a name of its own: it is one report of one fact and is never changed."""
    metadata = job["metadata"]
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{metadata['name']}.{secrets.token_hex(8)}",
            "namespace": metadata["namespace"],
        },
        "involvedObject": {
            "apiVersion": constants.API_VERSION,
            "kind": constants.KIND,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "type": event.type,
        "reason": event.reason,
        "message": _cut(event.message),
        "source": {"component": constants.FIELD_MANAGER},
        "reportingComponent": constants.FIELD_MANAGER,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }


def _cut(message: str) -> str:
    """Within the limit in bytes, without half a character at the end."""
    encoded = message.encode("utf-8")
    if len(encoded) <= MAX_MESSAGE:
        return message
    return encoded[: MAX_MESSAGE - 3].decode("utf-8", "ignore") + "..."
