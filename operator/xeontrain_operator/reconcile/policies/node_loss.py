"""Pods on nodes that are lost: nothing else ends them, and their StatefulSet waits for their end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from xeontrain_operator.reconcile.decision import DeletePod
from xeontrain_operator.reconcile.observed import Document, is_terminating
from xeontrain_operator.reconcile.pods import node_of, pod_uid
from xeontrain_operator.reconcile.situation import Situation, parse_time

# A kubelet that lives needs a moment longer than the grace period to report the end.
MARGIN_SECONDS: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class NodeLoss:
    """What is to be done about pods that are past their deletion grace."""

    actions: tuple[DeletePod, ...]
    ask_nodes: tuple[str, ...]
    requeue_seconds: float | None


def release(situation: Situation) -> NodeLoss:
    """Pods past their deletion grace on a lost node are deleted by force; of the others' nodes we ask."""
    overdue: list[Document] = []
    waits: list[float] = []
    for pod in _leaving(situation.observed.pods):
        # deletionTimestamp is the time at which the grace period ends.
        end = parse_time(pod["metadata"]["deletionTimestamp"])
        left = MARGIN_SECONDS - (situation.now - end).total_seconds()
        if left > 0:
            waits.append(left)
        else:
            overdue.append(pod)
    lost = [pod for pod in overdue if node_of(pod) in situation.observed.lost_nodes]
    if overdue:
        waits.append(MARGIN_SECONDS)
    return NodeLoss(
        actions=tuple(
            DeletePod(name=pod["metadata"]["name"], uid=pod_uid(pod), grace_seconds=0) for pod in lost
        ),
        ask_nodes=tuple(sorted({node for pod in overdue if (node := node_of(pod))})),
        requeue_seconds=min(waits, default=None),
    )


def _leaving(pods: Iterable[Document]) -> list[Document]:
    return [pod for pod in pods if is_terminating(pod) and node_of(pod)]
