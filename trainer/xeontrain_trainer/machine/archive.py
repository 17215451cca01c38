"""A recorded machine in a tar, as hwloc-gather-topology and util-linux write it, read without unpacking.

Nothing is written to disk, so no name or link of the archive can lead anywhere outside of it.
"""

from __future__ import annotations

import lzma
import posixpath
import tarfile
import zlib
from typing import Optional

from .tree import Tree

MIB = 1 << 20
# The largest recording known (9,000 files) is 2 MiB; one CPU has 1.5 KiB of /proc/cpuinfo.
MAX_FILE_BYTES = 4 * MIB
MAX_TOTAL_BYTES = 64 * MIB
MAX_MEMBERS = 500_000
# The kernel's own limit (path_resolution(7)).
MAX_LINKS = 40

CPU_FOLDER = ("sys", "devices", "system", "cpu")
PROC_FILES = (("proc", "stat"), ("proc", "cpuinfo"))


class ArchiveError(Exception):
    """The file is no tar that can be read, or holds no /sys and /proc; the text says which."""


class ArchiveTree(Tree):
    """The tree in a tar, compressed or not. Its root is the folder in it that has `sys` and `proc`."""

    def __init__(self, path: str) -> None:
        """Raises ArchiveError."""
        super().__init__(path)
        self._files: dict[str, bytes] = {}
        self._links: dict[str, str] = {}
        self._folders: dict[str, set[str]] = {"": set()}
        try:
            with tarfile.open(path, "r:*") as archive:
                self._load(archive)
        except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            # tarfile lists each way that it tried on a line of its own.
            why = str(error).partition("\n")[0].rstrip(":")
            raise ArchiveError(f"{path} is no tar that can be read: {why}") from None
        self._root = self._find_root()

    def read(self, path: str) -> Optional[bytes]:
        found = self._resolve(path)
        return None if found is None else self._files.get(found)

    def names(self, *parts: str) -> tuple[str, ...]:
        found = self._resolve("/".join(part.strip("/") for part in parts))
        return () if found is None else tuple(sorted(self._folders.get(found, ())))

    def _load(self, archive: tarfile.TarFile) -> None:
        total = 0
        for count, member in enumerate(archive, start=1):
            total += member.size if member.isreg() and member.size <= MAX_FILE_BYTES else 0
            if total > MAX_TOTAL_BYTES or count > MAX_MEMBERS:
                raise ArchiveError(f"{self.name} is too large to be a recording of /sys and /proc alone")
            name = posixpath.normpath(member.name.lstrip("/"))
            if name != ".." and not name.startswith("../"):
                self._add(archive, member, name="" if name == "." else name)

    def _add(self, archive: tarfile.TarFile, member: tarfile.TarInfo, *, name: str) -> None:
        if member.issym():
            self._links[name] = member.linkname
        elif member.islnk():
            self._links[name] = "/" + member.linkname
        elif member.isreg() and member.size <= MAX_FILE_BYTES:
            file = archive.extractfile(member)
            self._files[name] = file.read() if file else b""
        elif not member.isdir():
            return
        while name:
            parent, _, last = name.rpartition("/")
            known = parent in self._folders
            self._folders.setdefault(parent, set()).add(last)
            if known:
                break
            name = parent

    def _find_root(self) -> str:
        """The shortest path in front of `sys/devices/system/cpu`, `proc/stat` or `proc/cpuinfo`."""
        roots = set()
        for name in (*self._files, *self._folders, *self._links):
            words = tuple(name.split("/"))
            for tail in (CPU_FOLDER, *PROC_FILES):
                if words[-len(tail) :] == tail:
                    roots.add("/".join(words[: -len(tail)]))
        if not roots:
            raise ArchiveError(
                f"{self.name} holds no sys/devices/system/cpu and no proc/stat: it is no recorded machine"
            )
        return min(roots, key=lambda root: (root.count("/"), len(root), root))

    def _resolve(self, path: str) -> Optional[str]:
        """The archive's own name of a path below the root, links followed; None where they lead out of it or
        nowhere."""
        base = self._root.split("/") if self._root else []
        done: list[str] = []
        todo = path.strip("/").split("/")
        hops = 0
        while todo:
            word = todo.pop(0)
            if word == "..":
                if not done:
                    return None
                done.pop()
            elif word not in ("", "."):
                done.append(word)
                target = self._links.get("/".join((*base, *done)))
                if target is not None:
                    hops += 1
                    if hops > MAX_LINKS:
                        return None
                    done = [] if target.startswith("/") else done[:-1]
                    todo = [*self._below_root(target).split("/"), *todo]
        return "/".join((*base, *done))

    def _below_root(self, target: str) -> str:
        """A hard link names the archive's path, a symbolic one the recorded machine's."""
        inside = target.lstrip("/")
        if target.startswith("/") and self._root and inside.startswith(self._root + "/"):
            return inside[len(self._root) + 1 :]
        return inside if target.startswith("/") else target
