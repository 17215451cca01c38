"""What a job has used: CPUs times the hours that its pods hold them, and what that costs."""

from __future__ import annotations

from xeontrain_operator.api import conditions as c
from xeontrain_operator.api.v1alpha1 import UsageStatus, cpu_millis
from xeontrain_operator.builders.placement import node_pool
from xeontrain_operator.reconcile.pods import holds_node
from xeontrain_operator.reconcile.situation import Situation


def count_usage(situation: Situation, *, over: bool = False) -> UsageStatus | None:
    """Usage so far. None until a pod has a node.

    Time is added only when the number of CPUs held changes or the job is over, so that time passing is no
    change of the status. A pod holds its CPUs from the moment it is bound until it is gone: nobody else has
    them while its image is pulled, while it waits for another worker, or while it saves.
    """
    held = None if over else _held_cpus(situation)
    old = situation.status.usage
    if old is None and held is None:
        return None
    old = old or UsageStatus()
    if held == old.held_cpus:
        return old
    hours = situation.since_seconds(old.since) / 3600
    return _priced(
        situation,
        core_hours=round(old.core_hours + (old.held_cpus or 0) * hours, 4),
        held_cpus=held,
        since=c.timestamp(situation.now) if held else None,
    )


def _held_cpus(situation: Situation) -> float | None:
    holders = [pod for pod in situation.pods.values() if holds_node(pod)]
    return cpu_millis(situation.spec.resources.cpu) / 1000 * len(holders) or None


def _priced(
    situation: Situation, *, core_hours: float, held_cpus: float | None, since: str | None
) -> UsageStatus:
    pool = node_pool(situation.job, settings=situation.settings)
    used = UsageStatus(core_hours=core_hours, held_cpus=held_cpus, since=since)
    if pool is None or pool.price_per_hour is None or pool.cpus_per_node is None:
        return used
    cost = core_hours * pool.price_per_hour / pool.cpus_per_node
    display = f"{cost:.2f} {situation.settings.currency}"
    return used.model_copy(update={"cost": round(cost, 4), "cost_display": display})
