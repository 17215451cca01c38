"""Run a function in several ranks at once, each a process of its own that met the others over gloo.

The processes are forked from a server that has imported torch once, so that many small groups are cheap.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

_TIMEOUT_SECONDS = 600
_PRELOADED = ["torch", "torch.distributed", "transformers.models.bert.modeling_bert", "datasets"]


@dataclass(frozen=True)
class Ended:
    """How a rank ended: the function's return value, or the traceback of what it raised; and its stderr."""

    value: Any
    error: str | None
    stderr: str


_NOT_WAITED = Ended(value=None, error="not waited for", stderr="")


def run_ranks(
    function: Callable[..., Any],
    *arguments: Any,
    world_size: int,
    local_world_size: int = 1,
    environ: Mapping[str, str] | None = None,
    per_rank: Sequence[Mapping[str, str]] = (),
    wait_for: Sequence[int] | None = None,
    **options: Any,
) -> list[Ended]:
    """Call `function(*arguments, **options)` in `world_size` ranks with torchrun's environment.

    Returns how each ended. `environ` is set in all of them, `per_rank[i]` in rank i. The function must be
    importable by name. Ranks not in `wait_for` (by default all are in it) end as soon as those have answered.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    port = _free_port()
    children = []
    for rank in range(world_size):
        names = _torchrun_names(rank, world_size=world_size, local_world_size=local_world_size, port=port)
        names.update(environ or {})
        names.update(per_rank[rank] if per_rank else {})
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=_child, args=(theirs, names, function, arguments, options), daemon=True
        )
        process.start()
        theirs.close()
        children.append((process, ours))
    try:
        waited = range(world_size) if wait_for is None else wait_for
        results = {rank: _result(children[rank][1]) for rank in waited}
        return [results.get(rank, _NOT_WAITED) for rank in range(world_size)]
    finally:
        for process, ours in children:
            ours.close()
            process.kill()
            process.join()
            process.close()


def succeeded(ended: Sequence[Ended]) -> list[Any]:
    """The values of ranks that all returned; fails with the traceback of one that did not."""
    for rank, one in enumerate(ended):
        assert one.error is None, f"rank {rank}:\n{one.error}\n{one.stderr}"
    return [one.value for one in ended]


def _torchrun_names(rank: int, *, world_size: int, local_world_size: int, port: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(rank % local_world_size),
        "LOCAL_WORLD_SIZE": str(local_world_size),
        "GROUP_RANK": str(rank // local_world_size),
        "GROUP_WORLD_SIZE": str(world_size // local_world_size),
        "XEONTRAIN_WORKERS": str(world_size // local_world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }


def _child(
    pipe: Connection,
    environ: Mapping[str, str],
    function: Callable[..., Any],
    arguments: Sequence[Any],
    options: Mapping[str, Any],
) -> None:
    os.environ.update(environ)
    import torch

    torch.set_num_threads(1)
    stderr = io.StringIO()
    value, error = None, None
    try:
        with redirect_stderr(stderr):
            value = function(*arguments, **options)
    except BaseException:
        error = traceback.format_exc()
    pipe.send(Ended(value=value, error=error, stderr=stderr.getvalue()))
    pipe.close()
    os._exit(0)


def _result(pipe: Connection) -> Ended:
    if not pipe.poll(_TIMEOUT_SECONDS):
        return Ended(value=None, error=f"no answer within {_TIMEOUT_SECONDS} s", stderr="")
    try:
        ended: Ended = pipe.recv()
    except EOFError:
        return Ended(value=None, error="the process ended without an answer", stderr="")
    return ended


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
