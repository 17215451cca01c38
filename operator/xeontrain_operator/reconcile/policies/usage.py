"""What a job has used: CPUs times hours while all workers run, and what they cost."""

from __future__ import annotations

from xeontrain_operator.api.v1alpha1 import UsageStatus, cpu_millis
from xeontrain_operator.builders.placement import node_pool
from xeontrain_operator.reconcile.situation import Situation


def add_usage(situation: Situation) -> UsageStatus | None:
    """Usage with the time since the job's start added: called when it ends or is suspended.

    Nothing is added while it runs, so that time passing is no change of the status.
    """
    started, old = situation.status.start_time, situation.status.usage
    if started is None:
        return old
    cpus = cpu_millis(situation.spec.resources.cpu) / 1000 * situation.spec.workers
    hours = situation.since_seconds(started) / 3600
    core_hours = round((old.core_hours if old else 0.0) + cpus * hours, 4)
    pool = node_pool(situation.job, settings=situation.settings)
    if pool is None or pool.price_per_hour is None or pool.cpus_per_node is None:
        return UsageStatus(core_hours=core_hours)
    cost = core_hours * pool.price_per_hour / pool.cpus_per_node
    return UsageStatus(
        core_hours=core_hours,
        cost=round(cost, 4),
        cost_display=f"{cost:.2f} {situation.settings.currency}",
    )
