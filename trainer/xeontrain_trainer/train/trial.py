"""Try in a child process what might end the process itself. Standard library only."""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import time
import warnings
from collections.abc import Callable

from .errors import last_words

_MESSAGE_BYTES = 300


def how_it_fails(action: Callable[[], object], *, timeout_seconds: float) -> str | None:
    """Run `action` in a fork of this process. None where it returns there, else how it ended, in words.

    The child has one thread, so `action` must do with one. Nothing that it changes is seen here.
    """
    reading, writing = os.pipe()
    child = _fork()
    if child == 0:
        _act_and_exit(action, report=writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        ended, said = _read_to_end(pipe.fileno(), deadline=time.monotonic() + timeout_seconds)
    if not ended:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not ended:
        return f"it did not end within {timeout_seconds:.0f} s"
    return _in_words(os.waitstatus_to_exitcode(status), said)


def _fork() -> int:
    with warnings.catch_warnings():
        # Python warns where there are threads: they stay behind, and what the child runs needs none of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _act_and_exit(action: Callable[[], object], *, report: int) -> None:
    code = 1
    # An end that is looked for is no crash to print a trace of.
    faulthandler.disable()
    try:
        action()
        code = 0
    except BaseException as error:
        os.write(report, last_words(error).encode(errors="replace")[:_MESSAGE_BYTES])
    finally:
        # Nothing of the parent is to be closed, flushed or joined from here.
        os._exit(code)


def _read_to_end(pipe: int, *, deadline: float) -> tuple[bool, bytes]:
    """(whether the child ended in time, what it said)."""
    said = b""
    while (left := deadline - time.monotonic()) > 0:
        if select.select([pipe], [], [], left)[0]:
            chunk = os.read(pipe, _MESSAGE_BYTES)
            if not chunk:
                return True, said
            said += chunk
    return False, said


def _in_words(code: int, said: bytes) -> str | None:
    if code == 0:
        return None
    if code < 0:
        return f"it ended with {signal.Signals(-code).name}"
    return said.decode(errors="replace") or f"it ended with exit code {code}"
