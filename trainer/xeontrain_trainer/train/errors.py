"""What can go wrong, by whose fault it is: the user's, the surroundings', or a bug. Standard library only."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from typing import Any, ClassVar

from .. import contract


class UserError(Exception):
    """The job cannot work as it is written: running it again would end the same way.

    `field` is the field of the resource to change, `cause` what is wrong there, `remedy` what to write
    instead. `str()` of it is one line for people.
    """

    exit_code: ClassVar[int]

    def __init__(self, field: str, *, cause: str, remedy: str) -> None:
        self.field, self.cause, self.remedy = field, cause, remedy
        super().__init__(_one_line(f"{field}: {cause}. {remedy}"))

    def __reduce__(self) -> tuple[Any, ...]:
        """For a process that encodes rows: what it raises comes to the rank by pickle."""
        return functools.partial(type(self), cause=self.cause, remedy=self.remedy), (self.field,)


class MissingFileError(UserError):
    """A file, dataset or model that the job names is not there, or cannot be reached."""

    exit_code = contract.EXIT_MISSING_FILE


class BadDataError(UserError):
    """The data cannot be read, or its rows cannot be used."""

    exit_code = contract.EXIT_BAD_DATA


class BadConfigError(UserError):
    """A field does not fit the data or the model: a column that is not there, a length that is too long."""

    exit_code = contract.EXIT_BAD_CONFIG


class LossNotFiniteError(UserError):
    """The loss or a gradient became NaN or infinite; all ranks agree on it before the weights change."""

    exit_code = contract.EXIT_LOSS_NOT_FINITE


class InterruptedRun(Exception):
    """The ranks agreed to stop, because the stop file was there. Neither success nor failure."""

    exit_code = contract.EXIT_INTERRUPTED


class RankLayoutError(RuntimeError):
    """The ranks are not laid out as the environment says: a bug of the launcher, never the user's fault."""


def write_error_file(path: str | None, *, message: str) -> None:
    """Leave `message` where the launcher looks for it, in torch's own form. Without a path, do nothing.

    Source of the form: `torch.distributed.elastic.multiprocessing.errors.ErrorHandler`.
    """
    if not path:
        return
    document = {"message": {"message": message, "extraInfo": {"timestamp": str(int(time.time()))}}}
    partial = f"{path}.partial"
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(partial, "w", encoding="utf-8") as file:
            json.dump(document, file)
        os.replace(partial, path)
    except OSError as error:
        print(f"cannot write the error file {path}: {error}", file=sys.stderr)


def last_words(error: BaseException) -> str:
    """The innermost cause of a library's exception in one line, for messages that quote it."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return _one_line(f"{type(error).__name__}: {lines[-1] if lines else 'no message'}")


def _one_line(text: str) -> str:
    return " ".join(text.split())
