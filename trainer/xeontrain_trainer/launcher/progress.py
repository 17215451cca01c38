"""Follows the progress file: JSON lines that a rank, or a user's script, appends."""

from __future__ import annotations

import datetime
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Optional

from .files import open_regular

MAX_LINE_BYTES = 64 << 10
CHUNK_BYTES = 256 << 10
# A longer backlog is read at the next looks, so that one look stays short.
MAX_POLL_BYTES = 16 << 20
MAX_TEXT = 64
MAX_SENTENCE = 500
MAX_INTEGER = 2**53
MAX_WORKERS = 512

INTEGERS = ("step", "totalSteps", "lastCheckpointStep")
NUMBERS = ("epoch", "loss", "samplesPerSecond", "etaSeconds")
TEXTS = ("precision", "backend")
SENTENCES = ("precisionReason", "backendReason", "ipexReason")
RATES = ("fp32SamplesPerSecond", "bf16SamplesPerSecond")
FLAGS = ("precisionEmulated", "ipexUsed")
RATES_BY_WORKER = "workerSamplesPerSecond"
# What was decided for the whole run: a script says it once, and it holds for the lines that follow.
LASTING = (*TEXTS, *SENTENCES, *RATES, *FLAGS, RATES_BY_WORKER, "resume", "lastCheckpointStep")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


class ProgressTail:
    """Reads what has been appended since the last look; remembers the last valid progress."""

    def __init__(self, path: str, *, now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now
        self._last: Optional[dict[str, Any]] = None
        self._lasting: dict[str, Any] = {}
        self._file_id: Optional[tuple[int, int]] = None
        self._offset = 0
        self._partial = b""
        self._skipping = False

    def poll(self) -> Optional[dict[str, Any]]:
        """The last valid progress as the contract's `progress` object (`time` filled in), None before the
        first.

        Partial lines wait for their end; rubbish, huge lines and unknown keys are ignored; NaN never comes
        out; a file that was truncated or replaced is read again from its start. What LASTING names holds
        until a line says otherwise.
        """
        try:
            with open_regular(self._path) as file:
                self._follow(os.fstat(file.fileno()))
                file.seek(self._offset)
                self._read_on(file.read)
        except OSError:
            pass
        return self._last

    def take(self, progress: Mapping[str, Any]) -> None:
        """Takes over a progress that came by another way; the newest counts, whichever way it came."""
        self._last = dict(progress)

    def _follow(self, status: os.stat_result) -> None:
        file_id = (status.st_dev, status.st_ino)
        if file_id != self._file_id or status.st_size < self._offset:
            self._file_id, self._offset, self._partial, self._skipping = file_id, 0, b"", False
            self._lasting = {}

    def _read_on(self, read: Callable[[int], bytes]) -> None:
        budget = MAX_POLL_BYTES
        while budget > 0:
            chunk = read(CHUNK_BYTES)
            if not chunk:
                return
            budget -= len(chunk)
            self._offset += len(chunk)
            *lines, self._partial = (self._partial + chunk).split(b"\n")
            for line in lines:
                self._take(line)
            if len(self._partial) > MAX_LINE_BYTES:
                self._partial, self._skipping = b"", True

    def _take(self, line: bytes) -> None:
        if self._skipping:
            self._skipping = False
        elif line.strip() and len(line) <= MAX_LINE_BYTES:
            progress = parse_progress(line, now=self._now)
            if progress is not None:
                self._lasting.update({key: progress[key] for key in LASTING if key in progress})
                self._last = {**self._lasting, **progress}


def parse_progress(line: bytes, *, now: Callable[[], float] = time.time) -> Optional[dict[str, Any]]:
    """The contract's `progress` object of one line, None where the line is not one or has no step.

    A key whose value is of the wrong kind, is not finite or is beyond 2^53 is left out.
    """
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return read_progress(document, now=now) if isinstance(document, dict) else None


def read_progress(
    document: Mapping[str, Any], *, now: Callable[[], float] = time.time
) -> Optional[dict[str, Any]]:
    """The same of a document that was read already."""
    if not _is_integer(document.get("step")):
        return None
    progress = {key: document[key] for key in INTEGERS if _is_integer(document.get(key))}
    progress.update({key: document[key] for key in NUMBERS if is_number(document.get(key))})
    progress.update({key: document[key] for key in TEXTS if _is_text(document.get(key))})
    progress.update(_decisions(document))
    said = document.get("time")
    progress["time"] = said if isinstance(said, str) and TIME.fullmatch(said) else utc(now())
    return progress


def _decisions(document: Mapping[str, Any]) -> dict[str, Any]:
    """What a training says of its choices, and of the workers' speeds."""
    said: dict[str, Any] = {
        key: document[key][:MAX_SENTENCE] for key in SENTENCES if isinstance(document.get(key), str)
    }
    said.update({key: document[key] for key in RATES if _is_rate(document.get(key))})
    said.update({key: document[key] for key in FLAGS if isinstance(document.get(key), bool)})
    rates = document.get(RATES_BY_WORKER)
    if isinstance(rates, list) and len(rates) <= MAX_WORKERS and all(map(_is_rate, rates)):
        said[RATES_BY_WORKER] = rates
    resume = _resume(document.get("resume"))
    if resume is not None:
        said["resume"] = resume
    return said


def _resume(value: Any) -> Optional[dict[str, Any]]:
    """What a training goes on from, and whether as if it had never stopped; None where it does not say."""
    if not isinstance(value, dict):
        return None
    step, exact, reason = value.get("step"), value.get("exact"), value.get("reason")
    if not _is_integer(step) or not isinstance(exact, bool) or not isinstance(reason, str):
        return None
    return {"step": step, "exact": exact, "reason": reason[:MAX_SENTENCE]}


def utc(seconds: float) -> str:
    """RFC 3339 in UTC with a `Z`, to the second."""
    moment = datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INTEGER


def is_number(value: Any) -> bool:
    """Whether it is a number, finite and small enough: the comparison is false for NaN."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER


def _is_rate(value: Any) -> bool:
    return is_number(value) and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_TEXT
