"""What a rank writes to its standard output and error: cut into lines, remembered for the message of a
failure."""

from __future__ import annotations

import collections
import json
import re
from typing import Any

MAX_LINE_BYTES = 64 << 10
KEEP_BYTES = 64 << 10
MAX_MESSAGE = 1000
TRACEBACK = b"Traceback (most recent call last):"
SPACES = re.compile(r"\s+")


class LineBuffer:
    """Cuts a stream into lines. A progress bar's carriage returns overwrite: only the last state of a line
    stays."""

    def __init__(self) -> None:
        self._partial = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Lines that are complete, without their newline; a longer one than 64 KiB comes in pieces."""
        *lines, rest = (self._partial + data).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            rest = _last_state(rest)
        while len(rest) > MAX_LINE_BYTES:
            lines.append(rest[:MAX_LINE_BYTES])
            rest = rest[MAX_LINE_BYTES:]
        self._partial = rest
        return [_last_state(line) for line in lines]

    def flush(self) -> list[bytes]:
        """The line that was begun, if any."""
        rest, self._partial = _last_state(self._partial), b""
        return [rest] if rest else []


class ErrorTail:
    """The last 64 KiB of a rank's standard error."""

    def __init__(self) -> None:
        self._lines: collections.deque[bytes] = collections.deque()
        self._size = 0

    def add(self, line: bytes) -> None:
        """Remembers a line."""
        self._lines.append(line)
        self._size += len(line) + 1
        while self._size > KEEP_BYTES and len(self._lines) > 1:
            self._size -= len(self._lines.popleft()) + 1

    def message(self) -> str:
        """The exception's line of the last traceback, else the last line that is not blank, else ""."""
        lines = list(self._lines)
        return one_line(_exception_line(lines) or _last_line(lines))


def error_file_message(text: str) -> str:
    """The message of a torchelastic error file, in one line; "" where the text is not one.

    Form: `{"message": {"message": "..."}}`, or `{"message": "..."}` as older versions write.
    """
    try:
        message: Any = json.loads(text)
        for _ in range(2):
            message = message.get("message", "") if isinstance(message, dict) else message
    except (ValueError, RecursionError):
        return ""
    return one_line(message.encode(errors="replace")) if isinstance(message, str) else ""


def one_line(text: bytes) -> str:
    """The text with all white space as single blanks, at most 1000 characters."""
    line = SPACES.sub(" ", text.decode("utf-8", errors="replace")).strip()
    return line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 3] + "..."


def _last_state(line: bytes) -> bytes:
    return line.rstrip(b"\r").rpartition(b"\r")[2]


def _exception_line(lines: list[bytes]) -> bytes:
    starts = [index for index, line in enumerate(lines) if line.lstrip().startswith(TRACEBACK)]
    if not starts:
        return b""
    body = lines[starts[-1] + 1 :]
    return next((line for line in body if line.strip() and not line.startswith((b" ", b"\t"))), b"")


def _last_line(lines: list[bytes]) -> bytes:
    return next((line for line in reversed(lines) if line.strip()), b"")
