"""Bounded logs of all rounds: one file a rank and round, and one of the whole worker, all rotated."""

from __future__ import annotations


class RoundLogs:
    """The folder `logs/` of the state folder.

    Each rank's output goes to `round-<n>-rank-<r>.log` (at most `file_bytes`, then rotated once) and, with its
    prefix, to `worker.log`; the oldest rounds' files are removed once all together exceed `total_bytes`.
    """

    def __init__(self, folder: str, *, file_bytes: int = 8 << 20, total_bytes: int = 64 << 20) -> None:
        raise NotImplementedError

    def write(self, line: bytes, *, round_number: int, rank: int, prefix: str = "") -> None:
        """One line of a rank's output, with or without its newline."""
        raise NotImplementedError

    def note(self, text: str) -> None:
        """A line of the launcher's own into the worker's log."""
        raise NotImplementedError

    def tail(self, max_bytes: int = 65536) -> bytes:
        """The last whole lines of the worker's log, over all rounds, at most `max_bytes`."""
        raise NotImplementedError

    def close(self) -> None:
        """Closes all files; a later write opens them again."""
        raise NotImplementedError
