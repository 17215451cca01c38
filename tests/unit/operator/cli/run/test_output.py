"""A command's own words are shown as they come."""

from __future__ import annotations

from pathlib import Path

from xeontrain_operator.cli.run.output import RankOutput


def test_whole_lines_of_ranks_once(tmp_path: Path) -> None:
    """Lines of the launcher are left out, half lines wait, nothing comes twice."""
    log = tmp_path / "log"
    output = RankOutput([log])
    assert output.new_lines() == []
    log.write_text("xeontrain: round 1\n[rank 0] hello\n[rank 0] ha")
    assert output.new_lines() == ["[rank 0] hello"]
    assert output.new_lines() == []
    with log.open("a") as file:
        file.write("lf\n")
    assert output.new_lines() == ["[rank 0] half"]


def test_endless_line(tmp_path: Path) -> None:
    """A line without an end does not stop the rest for ever."""
    log = tmp_path / "log"
    log.write_text("[rank 0] " + "x" * (3 << 20) + "\n[rank 0] end\n")
    output = RankOutput([log])
    seen = [line for _ in range(5) for line in output.new_lines()]
    assert seen[-1] == "[rank 0] end"
