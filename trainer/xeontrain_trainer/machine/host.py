"""Look-ups that need this very host: the interface of an address, libraries that may be preloaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional


def find_interface(address: str) -> Optional[str]:
    """Name of the network interface that carries this IPv4 or IPv6 address; None where none does."""
    raise NotImplementedError


def find_library(names: Sequence[str], *, environ: Mapping[str, str], root: str = "/") -> Optional[str]:
    """Absolute path of the first of `names` in the usual library folders; None where none is there."""
    raise NotImplementedError
