"""The ranks as a group: a store to meet at, one exchange before the group exists, and the group itself.

The gang has seen to it that all ranks are alive, and ends them all when one dies. So the waits here are
longer than any preparation takes, and a rank never guesses that a slow peer is a dead one.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import HashStore, Store, TCPStore  # type: ignore[attr-defined]

from .affinity import affinity
from .data import Prepared
from .environment import Environment
from .errors import BadDataError, RankLayoutError
from .meeting import UnreachableRankError

# Longer than any tokenizing; 24 days is where milliseconds in 32 bits end.
_PATIENCE = datetime.timedelta(days=7)
# Between collectives a rank at most evaluates; a peer that dies closes its connections and is seen at once.
_COLLECTIVE_TIMEOUT = datetime.timedelta(hours=1)


def open_store(
    environment: Environment, *, listener: socket.socket | None = None, comm_cpus: Sequence[int] = ()
) -> Store:
    """The store at MASTER_ADDR that rank 0 serves; within one process a store of its own.

    `listener`: rank 0's port, if it listens already (meeting.py); closed here. `comm_cpus`: as in
    `process_group`; the server's thread is made here.
    """
    if environment.world_size == 1:
        return HashStore()
    with affinity(comm_cpus), listener or contextlib.nullcontext():
        return _shared_store(environment, listener)


def _shared_store(environment: Environment, listener: socket.socket | None) -> Store:
    if not environment.is_main:
        return _tcp_store(environment, use_libuv=False)
    try:
        use_libuv = os.environ.get("USE_LIBUV", "1") != "0"
        return _tcp_store(environment, use_libuv=use_libuv, listener=listener)
    except RuntimeError as error:
        # Some builds (Debian's) lack libuv and only say so when asked for it.
        if "libuv" not in str(error):
            raise
        return _tcp_store(environment, use_libuv=False, listener=listener)


def _tcp_store(
    environment: Environment, *, use_libuv: bool, listener: socket.socket | None = None
) -> TCPStore:
    assert environment.master_addr is not None
    # The store takes what it is given for its own, and closes it.
    handle: dict[str, Any] = {} if listener is None else {"master_listen_fd": os.dup(listener.fileno())}
    return TCPStore(
        environment.master_addr,
        environment.master_port,
        world_size=environment.world_size,
        is_master=environment.is_main,
        timeout=_PATIENCE,
        wait_for_workers=False,
        use_libuv=use_libuv,
        **handle,
    )


def share_prepared(store: Store, mine: Prepared | None, *, environment: Environment) -> Prepared:
    """What this worker's first rank prepared, once all workers have. `mine` is None in the other ranks.

    Raises BadDataError where two workers would train on different data.
    """
    if mine is not None:
        store.set(_prepared_key(environment.group_rank), mine.to_json())
    keys = [_prepared_key(worker) for worker in range(environment.group_world_size)]
    store.wait(keys, _PATIENCE)
    first, own = (
        Prepared.from_json(store.get(keys[worker]).decode()) for worker in (0, environment.group_rank)
    )
    if own.digest != first.digest:
        raise BadDataError(
            "spec.training.dataset",
            cause=f"worker 0 sees {_summary(first)}, worker {environment.group_rank} sees {_summary(own)}, "
            "and their contents differ",
            remedy="Give all workers the same files: a ConfigMap, or a volume that all of them mount",
        )
    return own


def _prepared_key(worker: int) -> str:
    return f"xeontrain/prepared/{worker}"


def _summary(prepared: Prepared) -> str:
    return f"{prepared.train_rows} rows to train on, {prepared.eval_rows or 0} to evaluate on"


@contextlib.contextmanager
def process_group(
    store: Store, *, environment: Environment, backend: str, comm_cpus: Sequence[int] = ()
) -> Iterator[None]:
    """The group of all ranks, as the default group. Left by a success only: a failed rank just ends.

    `comm_cpus`: CPUs that the plan keeps for communication. A thread inherits the affinity of its maker, and
    gloo makes its threads with the group. Raises RankLayoutError where the group is not of the expected size.
    """
    with affinity(comm_cpus):
        _make_group(store, environment=environment, backend=backend)
    _assert_world_size(environment.world_size)
    yield
    dist.destroy_process_group()


def _make_group(store: Store, *, environment: Environment, backend: str) -> None:
    """All ranks come here within moments, so that one which is not reached for `timeout_seconds` never will
    be; collectives have longer. A torch without `set_timeout` keeps one timeout for both."""
    set_timeout = getattr(dist, "set_timeout", None)
    meeting_timeout = datetime.timedelta(seconds=environment.timeout_seconds)
    try:
        dist.init_process_group(
            backend,
            store=store,
            rank=environment.rank,
            world_size=environment.world_size,
            timeout=meeting_timeout if set_timeout is not None else _COLLECTIVE_TIMEOUT,
        )
    except RuntimeError as error:
        raise UnreachableRankError(
            f"rank {environment.rank} of worker {environment.group_rank} does not reach all other ranks: "
            f"{error}"
        ) from error
    if set_timeout is not None:
        set_timeout(_COLLECTIVE_TIMEOUT)


def _assert_world_size(expected: int) -> None:
    """Count the ranks that really answer. N separate trainings in silence are the worst failure there is."""
    present = torch.ones(1, dtype=torch.int64)
    dist.all_reduce(present)
    if dist.get_world_size() != expected or int(present) != expected:
        raise RankLayoutError(
            f"WORLD_SIZE is {expected}, but the process group has {dist.get_world_size()} ranks, "
            f"of which {int(present)} answered"
        )


def total(values: Sequence[float]) -> list[float]:
    """The sums of `values` over all ranks, in double precision. A collective: all ranks call it."""
    tensor = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(tensor)
    return [float(value) for value in tensor]


def gather(value: Any) -> list[Any]:
    """`value` of every rank, by rank; it must be plain. A collective: all ranks call it."""
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def barrier() -> None:
    """Go on when all ranks have come here. A collective."""
    dist.barrier()


def largest(values: Sequence[float]) -> list[float]:
    """The largest of each of `values` over all ranks. A collective: all ranks call it."""
    tensor = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return [float(value) for value in tensor]
