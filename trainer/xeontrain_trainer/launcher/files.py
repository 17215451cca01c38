"""Files that must be whole or absent: written aside, fsynced, renamed, and their folder fsynced."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from typing import Any, BinaryIO, Optional

# No file of ours comes near this; a larger one is somebody else's and is not read.
MAX_JSON_BYTES = 4 << 20


def write_whole(path: str, data: bytes) -> None:
    """Replaces the file at once: after a crash it is the old one or the new one. Makes the folder. Raises
    OSError that names `path`."""
    folder = os.path.dirname(os.path.abspath(path))
    aside = f"{path}.{os.getpid()}.tmp"
    try:
        os.makedirs(folder, exist_ok=True)
        with open(aside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise OSError(error.errno, error.strerror or str(error), path) from error
    _sync_folder(folder)


def write_json(path: str, document: Any) -> None:
    """Replaces the file by the document as one line of JSON. Raises OSError, or ValueError on NaN."""
    write_whole(path, json.dumps(document, allow_nan=False).encode() + b"\n")


def open_regular(path: str) -> BinaryIO:
    """The file, open for reading; it never waits. Raises OSError, also where it is no regular file: a program
    may leave a pipe under one of our names, and whoever opens that waits for a writer."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return open(handle, "rb")


def read_json(path: str) -> Optional[dict[str, Any]]:
    """The object in the file; None where it is missing, unreadable, too large or not a JSON object."""
    try:
        with open_regular(path) as file:
            data = file.read(MAX_JSON_BYTES + 1)
        document = json.loads(data) if len(data) <= MAX_JSON_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def read_number(path: str) -> int:
    """The whole number in the file; 0 where there is none."""
    try:
        with open_regular(path) as file:
            text = file.read(32).strip()
    except OSError:
        return 0
    return int(text) if text.isdigit() else 0


def remove(path: str) -> None:
    """Removes the file; one that is not there is as good."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _sync_folder(folder: str) -> None:
    """The rename itself must reach the disk. Some network file systems refuse to sync a folder: nothing is
    lost there that could be kept."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
