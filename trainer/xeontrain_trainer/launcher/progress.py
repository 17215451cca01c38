"""Follows the progress file: JSON lines that a rank, or a user's script, appends."""

from __future__ import annotations

from typing import Any, Optional


class ProgressTail:
    """Reads what has been appended since the last look; remembers the last valid progress."""

    def __init__(self, path: str) -> None:
        raise NotImplementedError

    def poll(self) -> Optional[dict[str, Any]]:
        """The last valid progress as the contract's `progress` object (`time` filled in), None before the first.

        Partial lines wait for their end; rubbish, huge lines and unknown keys are ignored; NaN never comes out;
        a file that was truncated or replaced is read again from its start.
        """
        raise NotImplementedError
