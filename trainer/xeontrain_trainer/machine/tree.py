"""Small reads below a root folder. What cannot be read is None, never an exception."""

from __future__ import annotations

import os
from typing import Optional

from .cpulist import parse_cpus


class Tree:
    """A file tree with `/sys` and `/proc`: the live one or a recording."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.live = os.path.realpath(root) == "/"

    def path(self, *parts: str) -> str:
        """Absolute path of a path of the tree; leading slashes of `parts` mean the tree's root."""
        return os.path.join(self.root, *(part.lstrip("/") for part in parts))

    def text(self, *parts: str) -> Optional[str]:
        """The file's text, stripped."""
        try:
            with open(self.path(*parts), encoding="utf-8", errors="replace") as file:
                return file.read().strip().strip("\x00")
        except OSError:
            return None

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
        if not text:
            return None
        try:
            bits = int("".join(word.strip().zfill(8) for word in text.split(",")), 16)
        except ValueError:
            return None
        return tuple(number for number in range(bits.bit_length()) if bits >> number & 1)

    def names(self, *parts: str) -> tuple[str, ...]:
        """Names in a folder, sorted; empty where there is none."""
        try:
            return tuple(sorted(os.listdir(self.path(*parts))))
        except OSError:
            return ()
