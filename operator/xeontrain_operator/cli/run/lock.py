"""One run at a time in an output folder: two would write the same claims and the same model."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from xeontrain_operator.cli.files import InputError

_NAME: Final = ".lock"
# File systems without locks, some network ones: a run there is not refused for it.
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS})


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the folder until the block ends, or this process does. Raises InputError where another run holds
    it, naming its process; OSError where the folder cannot be written."""
    with (folder / _NAME).open("a+b", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            pid = file.read(32).decode(errors="replace").strip()
            raise InputError(
                f"{folder}: another run{f' (process {pid})' if pid else ''} uses it: wait for its end, or "
                "choose another with --output"
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode())
        yield
