"""Small reads of `/sys` and `/proc`: the live ones, a folder or a tar. What cannot be read is None, never an
exception."""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from typing import Optional

from .cpulist import LARGEST, parse_cpus

# /proc/cpuinfo of 4,096 CPUs has 6 MiB; anything larger is no file that we ask for.
LARGEST_FILE = 64 << 20


class Tree(ABC):
    """A file tree with `/sys` and `/proc`. `name`: what a person calls it. `live`: this very machine's.

    Leading slashes of paths mean the tree's root, and no link leads out of it.
    """

    def __init__(self, name: str, *, live: bool = False) -> None:
        self.name = name
        self.live = live

    @abstractmethod
    def read(self, path: str) -> Optional[bytes]:
        """The file's content."""

    @abstractmethod
    def names(self, *parts: str) -> tuple[str, ...]:
        """Names in a folder, sorted; empty where there is none."""

    def text(self, *parts: str) -> Optional[str]:
        """The file's text, stripped. Archivers fill files of /sys, which are shorter than they say, with
        NULs."""
        content = self.read(_joined(parts))
        return None if content is None else content.decode("utf-8", errors="replace").strip("\x00 \t\r\n")

    def number(self, *parts: str) -> Optional[int]:
        """The whole number, 0 or more, that the file holds."""
        text = self.text(*parts) or ""
        return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None

    def cpus(self, *parts: str) -> Optional[tuple[int, ...]]:
        """The numbers of a file in list format; None where it is missing, empty or not a list."""
        text = self.text(*parts)
        if not text:
            return None
        try:
            return parse_cpus(text)
        except ValueError:
            return None

    def mask(self, *parts: str) -> Optional[tuple[int, ...]]:
        """The numbers of a file in mask format (`ff,ffffffff`, older kernels)."""
        text = self.text(*parts)
        # Four CPUs a letter: a text of this length names CPUs far above any machine's.
        if not text or len(text) > LARGEST:
            return None
        try:
            bits = int("".join(word.strip().zfill(8) for word in text.split(",")), 16)
        except ValueError:
            return None
        return tuple(number for number in range(bits.bit_length()) if bits >> number & 1)


class FolderTree(Tree):
    """The tree under a folder; `/` is this machine."""

    def __init__(self, root: str) -> None:
        super().__init__(root, live=os.path.realpath(root) == "/")
        self._real = os.path.realpath(root)

    def read(self, path: str) -> Optional[bytes]:
        """A link that leads out of a recording would tell of this machine instead: such a file is missing.

        So is what is no file (a pipe of that name would be waited for without end).
        """
        try:
            inside = self._inside(path)
            with open(inside or "", "rb", opener=_open_at_once) as file:
                return file.read(LARGEST_FILE) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
        except (OSError, ValueError):  # ValueError: rubbish in one file is part of the path of another
            return None

    def names(self, *parts: str) -> tuple[str, ...]:
        try:
            inside = self._inside(_joined(parts))
            return tuple(sorted(os.listdir(inside))) if inside else ()
        except (OSError, ValueError):
            return ()

    def _inside(self, path: str) -> Optional[str]:
        full = os.path.join(self._real, path)
        if self.live:
            return full
        real = os.path.realpath(full)
        return real if real == self._real or real.startswith(self._real + os.sep) else None


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _joined(parts: tuple[str, ...]) -> str:
    return "/".join(part.strip("/") for part in parts)
