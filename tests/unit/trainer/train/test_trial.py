"""A trial in a child process: whatever happens there is told in words, and happens there only."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

import psutil
import pytest
from xeontrain_trainer.train.trial import how_it_fails


def _raise() -> None:
    raise ImportError("libccl.so.1: cannot open shared object file")


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        pytest.param(lambda: None, None, id="returns"),
        pytest.param(_raise, "ImportError: libccl.so.1: cannot open shared object file", id="raises"),
        pytest.param(lambda: os.kill(os.getpid(), signal.SIGSEGV), "it ended with SIGSEGV", id="signal"),
        pytest.param(lambda: os._exit(127), "it ended with exit code 127", id="exits-at-once"),
        pytest.param(lambda: sys.exit(3), "SystemExit: 3", id="exits"),
        pytest.param(lambda: time.sleep(60), "it did not end within 1 s", id="hangs"),
    ],
)
def test_how_it_ends(action: Callable[[], object], expected: str | None) -> None:
    """Success is None, anything else a sentence."""
    assert (
        how_it_fails(action, timeout_seconds=1.0 if expected and "within" in expected else 20.0) == expected
    )


def test_nothing_of_it_is_seen_here() -> None:
    """Modules loaded and values changed in the child stay there, and no child is left behind."""
    seen: list[int] = []
    children = psutil.Process().children()
    assert how_it_fails(lambda: seen.append(1), timeout_seconds=20.0) is None
    assert seen == []
    assert psutil.Process().children() == children
