"""The exec shim of a rank: `python -m xeontrain_trainer.rank [--parent PID] -- COMMAND [ARGUMENT...]`.

Reads the plan (XEONTRAIN_PLAN_FILE) and its place in it (LOCAL_RANK), pins itself, binds its memory,
completes the environment and becomes the command. Standard library only, since it runs in a user's image,
and few imports, since each rank waits for it. Affinity and memory policy are kept by execve and inherited by
threads and children.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import sys
import time
from collections.abc import MutableMapping, Sequence
from typing import Any, NoReturn, Optional

from . import contract

PR_SET_PDEATHSIG = 1
MPOL_BIND = 2
# set_mempolicy(2) has no wrapper in libc. Numbers: asm/unistd.h of each architecture.
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
BITS = 64

USAGE = "usage: python -m xeontrain_trainer.rank [--parent PID] -- COMMAND [ARGUMENT...]"


def main(argv: Sequence[str]) -> NoReturn:
    """Becomes the command. Exits 127 where the program is not there, 126 where it may not be executed, 78
    where the shim itself was called wrongly."""
    parent, command = _parse(argv)
    die_with(parent)
    plan, rank = _my_part()
    if plan.get("bound"):
        pin(rank["computeCpus"])
        bind_memory(rank["nodes"])
    if not command[0]:
        _fail(
            "command: its first item is empty; write a program's name", code=contract.EXIT_PROGRAM_NOT_FOUND
        )
    environ = {**os.environ, **rank["environment"]}
    # Python ignores these two; an ignored signal would stay ignored in the program.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvpe(command[0], list(command), environ)
    except OSError as error:
        code, message = explain_exec_error(error, program=command[0])
        _fail(message, code=code)


def _parse(argv: Sequence[str]) -> tuple[Optional[int], Sequence[str]]:
    options, command = list(argv), []
    if "--" in options:
        at = options.index("--")
        options, command = options[:at], options[at + 1 :]
    if not command or (
        options and (len(options) != 2 or options[0] != "--parent" or not options[1].isdigit())
    ):
        _fail(USAGE, code=contract.EXIT_BAD_CONFIG)
    return (int(options[1]) if options else None), command


def _my_part() -> tuple[dict[str, Any], dict[str, Any]]:
    """The plan and this rank's entry. The launcher wrote both; what is wrong with them is its bug."""
    path = os.environ.get(contract.ENV_PLAN_FILE, "")
    local_rank = os.environ.get("LOCAL_RANK", "")
    try:
        with open(path, encoding="utf-8") as file:
            plan = json.load(file)
        return plan, plan["ranks"][int(local_rank)]
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        _fail(
            f"{contract.ENV_PLAN_FILE}={path!r} has no rank LOCAL_RANK={local_rank!r}: {error}. "
            "Ranks are started by the launcher, not by hand",
            code=contract.EXIT_BAD_CONFIG,
        )


def die_with(parent: Optional[int]) -> None:
    """Has the kernel kill this rank when its launcher dies; ends at once where the launcher is dead already.

    Not asked for where `parent` is None.
    """
    if parent is None:
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def pin(cpus: Sequence[int]) -> None:
    """Sets the affinity mask of this process. A CPU set that has changed since the plan was made is a
    warning: a rank that runs elsewhere is better than none."""
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        _warn(f"ranks are not pinned to CPUs {list(cpus)}: {error.strerror}")
        return
    # The kernel cuts a mask that lies partly outside the cpuset without a word.
    missing = set(cpus) - os.sched_getaffinity(0)
    if missing:
        _warn(f"CPUs {sorted(missing)} of the plan are no longer in the pod's CPU set")


def bind_memory(nodes: Sequence[int]) -> None:
    """Takes memory from these NUMA nodes only. Without the right to (the default seccomp profile of some
    runtimes) the kernel's own choice stays: the node of the CPU that first touches a page."""
    number = SET_MEMPOLICY.get(os.uname().machine)
    if not nodes or number is None:
        return
    words = (ctypes.c_ulong * (max(nodes) // BITS + 1))()
    for node in nodes:
        words[node // BITS] |= 1 << (node % BITS)
    # The kernel reads one bit fewer than it is told (get_nodes in mm/mempolicy.c).
    bits = ctypes.c_ulong(len(words) * BITS + 1)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(ctypes.c_long(number), ctypes.c_int(MPOL_BIND), words, bits) != 0:
        code = ctypes.get_errno()
        if code not in (errno.EPERM, errno.ENOSYS):
            _warn(f"memory is not bound to NUMA nodes {list(nodes)}: {os.strerror(code)}")


def explain_exec_error(error: OSError, *, program: str) -> tuple[int, str]:
    """(exit code, sentence) for a program that could not be started."""
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        if os.sep in program and os.path.exists(program):
            return contract.EXIT_NOT_EXECUTABLE, f"command: the interpreter that {program} names is not there"
        where = "is not there" if os.sep in program else "was not found in PATH"
        return contract.EXIT_PROGRAM_NOT_FOUND, f"command: the program {program} {where}"
    reason = "is not executable" if isinstance(error, PermissionError) else f"cannot be run: {error.strerror}"
    return contract.EXIT_NOT_EXECUTABLE, f"command: the program {program} {reason}"


def write_error_file(message: str, *, environ: MutableMapping[str, str]) -> None:
    """Leaves the message in TORCHELASTIC_ERROR_FILE, in torch's own form; nothing where that is unset."""
    path = environ.get("TORCHELASTIC_ERROR_FILE")
    if not path:
        return
    document = {"message": {"message": message, "extraInfo": {"timestamp": str(int(time.time()))}}}
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
    except OSError as error:
        _warn(f"TORCHELASTIC_ERROR_FILE={path}: {error.strerror}")


def _fail(message: str, *, code: int) -> NoReturn:
    write_error_file(message, environ=os.environ)
    print(message, file=sys.stderr, flush=True)
    raise SystemExit(code)


def _warn(message: str) -> None:
    print(f"xeontrain: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
