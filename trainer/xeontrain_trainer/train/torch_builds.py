"""Libraries built for one version of torch: they fit no other, and may kill the process that tries."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable

from .errors import last_words


def version_of(*distributions: str) -> str | None:
    """The version of the first of these distributions that is installed; None where none is."""
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def minor(version: str) -> str:
    """The part of a version that has to be torch's: `2.8` of `2.8.0+cpu`."""
    return ".".join(version.split("+")[0].split(".")[:2])


def why_not_loaded(load: Callable[[], object]) -> str | None:
    """Load in this process; None if that worked, else the error's last words."""
    try:
        load()
    except Exception as error:  # a broken native library shows in many ways
        return last_words(error)
    return None
