"""Packs the launcher into one file: `python3 tools/make_launcher.py launcher.pyz`.

Standard library only, as the launcher itself, since the operator's image is built with it. The same sources
give the same bytes. Stored, not compressed: a Python without zlib can read it, and it loads faster.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAIN = ROOT / "tools" / "zipapp_main.py"
PACKAGE = ROOT / "trainer" / "xeontrain_trainer"
# What runs in an image of a user's own (see `lint-imports`): all but the training loop, which needs torch.
FOLDERS = ("gang", "launcher", "machine", "plan")
# The oldest time that a zip file can carry.
TIME = (1980, 1, 1, 0, 0, 0)


def sources() -> dict[str, Path]:
    """Returns the files of the archive by their names in it."""
    files = [
        *PACKAGE.glob("*.py"),
        *(file for folder in FOLDERS for file in (PACKAGE / folder).rglob("*.py")),
    ]
    named = {str(file.relative_to(PACKAGE.parent)): file for file in files}
    return {"__main__.py": MAIN, **dict(sorted(named.items()))}


def make(target: Path) -> None:
    """Writes the archive."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, file in sources().items():
            entry = zipfile.ZipInfo(name, date_time=TIME)
            entry.create_system = 3  # Unix, whatever this runs on
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, file.read_bytes())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} FILE")
    make(Path(sys.argv[1]))
