"""Is a rank's last line a cause, or the consequence of a peer that went first?"""

from __future__ import annotations

import re
from typing import Optional

from ..contract import EXIT_INTERRUPTED, USER_ERROR_EXITS
from ..gang.messages import MAX_TEXT, RankFailure
from .supervisor import RankExit

# What gloo, oneCCL's libfabric and torch's TCPStore say where the process at the other end is gone.
CLOSED_CONNECTION = re.compile(
    r"connection (was )?(closed|reset|refused|aborted)|connection was likely closed|broken pipe|socket closed"
    r"|failed to recv, got 0 bytes|has failed to connect|connection abort|peer .{0,40}(closed|disconnected)",
    re.IGNORECASE,
)
MESSAGE_LIMIT = 500


def is_consequence(message: str, *, exit_code: Optional[int]) -> bool:
    """Whether the rank died of a connection that a peer had closed. A user error is never a consequence."""
    return exit_code not in USER_ERROR_EXITS and CLOSED_CONNECTION.search(message) is not None


def to_failure(ended: RankExit, *, worker: int, training: bool) -> Optional[RankFailure]:
    """The failure that a rank's end is; None for success and for an end that was asked for.

    `training`: the built-in one, whose ranks end with EXIT_INTERRUPTED when one of them has seen the flag,
    maybe another worker's. A script that ends so by itself would do it in every round.
    """
    if ended.succeeded or ended.stopped or (training and ended.exit_code == EXIT_INTERRUPTED):
        return None
    message = (
        ended.message if len(ended.message) <= MESSAGE_LIMIT else ended.message[: MESSAGE_LIMIT - 3] + "..."
    )
    assert len(message) <= MAX_TEXT
    return RankFailure(
        worker=worker,
        rank=ended.rank,
        exit_code=ended.exit_code,
        signal=ended.signal,
        message=message,
        time=ended.time,
        consequence=is_consequence(ended.message, exit_code=ended.exit_code),
    )
