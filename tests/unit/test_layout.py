"""The layout's traps: folders that must never become packages, files that must never be committed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("folder", ["operator", "trainer"])
def test_folder_is_no_package(folder: str) -> None:
    """An `operator/__init__.py` would shadow the standard library's module for anything run from the root."""
    assert not (ROOT / folder / "__init__.py").exists()


@pytest.mark.parametrize(
    "arguments",
    [["-c", "import operator; operator.itemgetter(0)"], ["-m", "json.tool", "--help"]],
    ids=["operator", "module"],
)
def test_standard_library_is_not_shadowed(arguments: list[str]) -> None:
    """Python started in the root, as every developer does it, finds the real `operator`."""
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)


def _tracked() -> list[str]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in listing.stdout.split("\0") if name]


def test_no_large_or_binary_files_are_tracked() -> None:
    """Models, images and archives live in the cache folder, never in version control."""
    allowed = {".csv", ".yaml"}
    offenders = []
    for name in _tracked():
        path = ROOT / name
        if not path.is_file():
            continue
        content = path.read_bytes()
        if b"\0" in content or (len(content) > 1 << 20 and path.suffix not in allowed):
            offenders.append(name)
    assert offenders == []
