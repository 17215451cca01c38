"""Bounded logs of all rounds: one file a rank and round, and one of the whole worker, all rotated.

A log that cannot be written (a full disk) must not end a training, so failures to write are swallowed.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from typing import BinaryIO, Optional

from .files import open_regular

WORKER_LOG = "worker.log"
ROTATED = ".1"
RANK_LOG = re.compile(r"round-(\d+)-rank-(\d+)\.log(\.1)?")


class RoundLogs:
    """The folder `logs/` of the state folder.

    Each rank's output goes to `round-<n>-rank-<r>.log` (at most `file_bytes`, then rotated once) and, with
    its prefix, to `worker.log`; the oldest rounds' files are removed once all together exceed `total_bytes`.
    """

    def __init__(self, folder: str, *, file_bytes: int = 8 << 20, total_bytes: int = 64 << 20) -> None:
        self.folder = folder
        self._file_bytes = file_bytes
        self._total_bytes = total_bytes
        self._files: dict[str, _RotatingFile] = {}

    def write(self, lines: Sequence[bytes], *, round_number: int, rank: int, prefix: bytes = b"") -> None:
        """Lines of a rank's output, without their newlines."""
        self._append(f"round-{round_number}-rank-{rank}.log", joined(lines))
        self._append(WORKER_LOG, joined(lines, prefix=prefix))

    def note(self, text: str) -> None:
        """A line of the launcher's own into the worker's log."""
        self._append(WORKER_LOG, text.rstrip("\n").encode(errors="replace") + b"\n")

    def tail(self, max_bytes: int = 65536) -> bytes:
        """The last whole lines of the worker's log, over all rounds, at most `max_bytes`."""
        path = os.path.join(self.folder, WORKER_LOG)
        newest = _last_bytes(path, max_bytes + 1)
        missing = max_bytes + 1 - len(newest)
        text = (_last_bytes(path + ROTATED, missing) if missing else b"") + newest
        if len(text) <= max_bytes:
            return text
        # One byte more than asked shows whether the first line is whole; a line that fills all is cut.
        return text[1:] if text[:1] == b"\n" else text[1:].split(b"\n", 1)[-1] or text[1:]

    def close(self) -> None:
        """Closes all files; a later write opens them again."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _append(self, name: str, data: bytes) -> None:
        with contextlib.suppress(OSError):
            if name not in self._files:
                self._close_other_rounds(name)
                os.makedirs(self.folder, exist_ok=True)
                self._prune()
                self._files[name] = _RotatingFile(os.path.join(self.folder, name), max_bytes=self._file_bytes)
            if self._files[name].write(data):
                self._prune()

    def _close_other_rounds(self, name: str) -> None:
        """A new round's first line: the files of the round before are done with."""
        round_of = name.split("-rank-", 1)[0]
        for other in [known for known in self._files if known not in (WORKER_LOG, name)]:
            if name != WORKER_LOG and other.split("-rank-", 1)[0] != round_of:
                self._files.pop(other).close()

    def _prune(self) -> None:
        """Removes the files of the oldest rounds until the rest fits; those in use stay."""
        sizes = {}
        for entry in os.scandir(self.folder):
            found = RANK_LOG.fullmatch(entry.name)
            if found:
                sizes[(int(found.group(1)), entry.name)] = entry.stat().st_size
        total = sum(sizes.values())
        for (_, name), size in sorted(sizes.items()):
            if total <= self._total_bytes:
                return
            if name not in self._files:
                os.unlink(os.path.join(self.folder, name))
                total -= size


def joined(lines: Sequence[bytes], *, prefix: bytes = b"") -> bytes:
    """The lines as one text, each with the prefix before and a newline after it."""
    return b"".join(prefix + line + b"\n" for line in lines)


class _RotatingFile:
    """A file that is renamed to `<name>.1` once it is full. Unbuffered: a crash loses nothing."""

    def __init__(self, path: str, *, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._file: Optional[BinaryIO] = None
        self._size = 0

    def write(self, data: bytes) -> bool:
        """Whether the file was rotated before the data was written."""
        rotated = False
        if self._file is not None and self._size + len(data) > self._max_bytes:
            self.close()
            os.replace(self._path, self._path + ROTATED)
            rotated = True
        if self._file is None:
            self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115
            self._size = os.fstat(self._file.fileno()).st_size
        self._size += len(data)
        self._file.write(data)
        return rotated

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _last_bytes(path: str, count: int) -> bytes:
    """At most the last `count` bytes of the file; empty where there is none."""
    try:
        with open_regular(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - count))
            return file.read(count)
    except OSError:
        return b""
