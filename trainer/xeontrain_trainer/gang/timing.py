"""The gang's times, all derived from the number of workers."""

from __future__ import annotations

from dataclasses import dataclass

RANK_STOP_SECONDS = 5.0
"""What a rank that is asked to stop has before it is killed."""

END_BEFORE_SECONDS = 10.0
"""How long before the end of a pod's grace period ranks that still save are killed: its launcher has to tell
of it."""

NAME_CAUSE_SECONDS = 5.0
"""How long the coordinator waits for all members' accounts of a round's end."""

CAUSE_GRACE_SECONDS = 2.0
"""While closed connections are all that is known of a round's end, ranks are left alone for this long: the
one that closed them may still be writing its last words."""

LONGEST_NAP_SECONDS = 1.0
"""A gap between two looks at the clock counts as at most this much: more means the coordinator itself
slept."""

RECONNECT_SECONDS = 30.0
"""Age at which a member opens a new connection: cluster DNS caches a name as long."""

FAREWELL_SECONDS = 2.0
"""How long worker 0 waits, after the verdict, for all members to have heard it."""


def save_seconds(grace_period_seconds: float) -> float:
    """What ranks have to save and end, of a pod's grace period."""
    return max(1.0, grace_period_seconds - END_BEFORE_SECONDS)


@dataclass(frozen=True)
class Timing:
    """`period`: seconds between two reports of a member. `silent`: silence after which a member is lost."""

    period: float
    silent: float

    @classmethod
    def for_workers(cls, workers: int) -> Timing:
        """A period of a second up to 64 workers; above, 64 reports a second in all."""
        period = max(1.0, workers / 64)
        return cls(period=period, silent=max(10.0, 5 * period))
