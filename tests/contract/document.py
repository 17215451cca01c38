"""Tables of docs/contract.md, by section."""

from __future__ import annotations

import re
from pathlib import Path

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "contract.md").read_text(encoding="utf-8")

Row = dict[str, str]


def tables(section: str) -> list[list[Row]]:
    """Return the tables of a section, which is named by how its heading begins: rows as column -> cell."""
    found: list[list[Row]] = []
    for block in _section(section).split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        if len(lines) > 2:
            head, *rows = [[_plain(cell) for cell in line.strip("|").split("|")] for line in lines]
            found.append([dict(zip(head, row, strict=True)) for row in rows[1:]])
    return found


def _section(heading: str) -> str:
    for part in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]:
        if part.startswith(heading):
            return part
    raise AssertionError(f"docs/contract.md has no section {heading!r}")


def _plain(cell: str) -> str:
    return cell.strip().replace("`", "")
