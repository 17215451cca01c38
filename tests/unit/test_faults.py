"""docs/faults.md: each row is a test that exists, and none is listed twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 5
FEWEST_ON_A_CLUSTER = 60
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)(?:\[([^\]]+)\])?`")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "faults.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| [A-Z]\d+\w? \|", line)
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_names_tests_that_exist(row: list[str]) -> None:
    """Each by file, function and, where it stands for one case of several, the words of that case's id."""
    assert len(row) == COLUMNS
    assert all(cell for cell in row)
    tests = TEST.findall(row[2])
    assert tests
    for path, function, case in tests:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert f"def {function}(" in text
        assert all(f'"{word}"' in text for word in _ids(case, text)), case


def _ids(case: str, text: str) -> list[str]:
    """The quoted texts of which a case's id is made."""
    if not case or f'"{case}"' in text:
        return [case] if case else []
    return re.findall(r"[\w.]+", case)


def test_every_row_is_one_fault() -> None:
    """Numbers and tests with their cases are there once, unless two rows break two things in one test."""
    numbers = [row[0] for row in ROWS]
    assert sorted(set(numbers)) == sorted(numbers)
    texts = [(row[1], row[2]) for row in ROWS]
    assert len(set(texts)) == len(texts)


def test_sixty_are_on_a_real_cluster() -> None:
    """Faults in processes alone come on top."""
    on_cluster = [row for row in ROWS if "tests/unit/" not in row[2]]
    assert len(on_cluster) >= FEWEST_ON_A_CLUSTER
