"""The pictures in the documents are what the command draws today."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import plan_pictures
from tools.plan_pictures import EXAMPLES, PICTURES, differing


def test_the_pictures_are_as_drawn_now() -> None:
    """`make manifests` writes them."""
    assert differing() == []


def test_each_picture_is_shown() -> None:
    """docs/plan.md has them all."""
    page = (PICTURES.parent / "plan.md").read_text(encoding="utf-8")
    assert len(EXAMPLES) == 3
    assert all(f"pictures/{example.name}.svg" in page for example in EXAMPLES)


def test_what_differs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture that is missing, one that was changed, and one that nobody draws any more."""
    monkeypatch.setattr(plan_pictures, "PICTURES", tmp_path)
    assert plan_pictures.main([]) == 0
    assert plan_pictures.main(["--check"]) == 0
    (tmp_path / "two-sockets.svg").unlink()
    (tmp_path / "sub-numa.svg").write_text("<svg/>")
    (tmp_path / "old.svg").write_text("<svg/>")
    names = [path.name for path in differing()]
    assert names == ["old.svg", "sub-numa.svg", "two-sockets.svg"]
    assert plan_pictures.main(["--check"]) == 1
