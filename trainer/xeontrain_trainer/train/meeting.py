"""Can this rank reach rank 0 at all? Asked before anything slow, and without a library.

Rank 0 listens from its first moment, long before it serves the store, so that who does not get through is
known within seconds of the start and not after an hour of reading data. A peer that is slow is no failure.
"""

from __future__ import annotations

import os
import socket
import time

from .environment import Environment

CONNECT_SECONDS = 5.0
AGAIN_SECONDS = 0.5
BACKLOG = 4096


class UnreachableRankError(RuntimeError):
    """Ranks of this job do not reach each other: the network's fault, and worth another try."""


def listen(environment: Environment) -> socket.socket | None:
    """Rank 0's port of the rendezvous, listening; None in the others, and where there are no others.

    Raises UnreachableRankError where the port is taken.
    """
    if not environment.is_main or environment.world_size == 1:
        return None
    family = socket.AF_INET6 if ":" in (environment.master_addr or "") else socket.AF_INET
    try:
        return socket.create_server(("", environment.master_port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise UnreachableRankError(
            f"port {environment.master_port} of rank 0 cannot be had: {error.strerror or error}. "
            "spec.distributed.port chooses others"
        ) from None


def reach(environment: Environment) -> None:
    """Return once rank 0's port has answered. Raises UnreachableRankError after `timeout_seconds`."""
    if environment.is_main or environment.master_addr is None:
        return
    until = time.monotonic() + environment.timeout_seconds
    place = (environment.master_addr, environment.master_port)
    while True:
        try:
            with socket.create_connection(place, timeout=CONNECT_SECONDS):
                return
        except OSError as error:
            if time.monotonic() >= until:
                raise UnreachableRankError(unreachable(environment, why=_in_words(error))) from None
        time.sleep(AGAIN_SECONDS)


def unreachable(environment: Environment, *, why: str) -> str:
    """The sentence about a rank that does not get through: who, to whom, since when, the remedy."""
    return (
        f"rank {environment.rank} of worker {environment.group_rank} does not reach rank 0 at "
        f"{environment.master_addr} port {environment.master_port} for {environment.timeout_seconds} s "
        f"(spec.distributed.timeoutSeconds): {why}. Network policies and firewalls must let all TCP through "
        "between the workers; spec.distributed.port chooses other ports"
    )


def _in_words(error: OSError) -> str:
    """Not the system's own for a port that nobody listens on: the launcher takes those words for the end of a
    peer, which would be somebody else's failure."""
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there, or something in between turns it away"
    if isinstance(error, TimeoutError):
        return "no answer"
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
