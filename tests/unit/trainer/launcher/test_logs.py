"""Logs of all rounds are kept, within bounds, and the tail is whole lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from xeontrain_trainer.launcher.logs import RoundLogs


def total(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern))


def test_a_file_for_each_rank_and_round_and_one_for_all(tmp_path: Path) -> None:
    logs = RoundLogs(str(tmp_path / "logs"))
    logs.note("round 1 starts")
    logs.write([b"a"], round_number=1, rank=0, prefix=b"[rank 0] ")
    logs.write([b"b"], round_number=1, rank=3, prefix=b"[rank 3] ")
    logs.write([b"c"], round_number=2, rank=0, prefix=b"[rank 0] ")
    logs.close()
    logs.write([b"d"], round_number=2, rank=0, prefix=b"[rank 0] ")
    logs.close()
    texts = {path.name: path.read_text() for path in (tmp_path / "logs").iterdir()}
    assert texts == {
        "round-1-rank-0.log": "a\n",
        "round-1-rank-3.log": "b\n",
        "round-2-rank-0.log": "c\nd\n",
        "worker.log": "round 1 starts\n[rank 0] a\n[rank 3] b\n[rank 0] c\n[rank 0] d\n",
    }


def test_bounds(tmp_path: Path) -> None:
    """A flood over many rounds stays within the bounds, and the newest lines are those kept."""
    logs = RoundLogs(str(tmp_path), file_bytes=1000, total_bytes=5000)
    for number in range(1, 30):
        for line in range(100):
            logs.write([b"x" * 19], round_number=number, rank=line % 2)
    logs.write([b"the last line"], round_number=29, rank=0)
    logs.close()
    assert total(tmp_path, "worker.log*") <= 2000
    # The files in use may go beyond the bound by themselves: at most two ranks with a rotated file each.
    assert total(tmp_path, "round-*") <= 5000 + 4 * 1000
    rounds = {int(path.name.split("-")[1]) for path in tmp_path.glob("round-*")}
    assert max(rounds) == 29
    assert min(rounds) > 20
    assert logs.tail(100).endswith(b"the last line\n")


@pytest.mark.parametrize(
    ("max_bytes", "expected"),
    [
        pytest.param(1000, b"one\ntwo\nthree\n", id="all"),
        pytest.param(14, b"one\ntwo\nthree\n", id="exactly-all"),
        pytest.param(13, b"two\nthree\n", id="one-byte-short"),
        pytest.param(10, b"two\nthree\n", id="a-line-boundary"),
        pytest.param(9, b"three\n", id="inside-a-line"),
        pytest.param(3, b"ee\n", id="less-than-a-line"),
    ],
)
def test_tail_is_whole_lines(tmp_path: Path, max_bytes: int, expected: bytes) -> None:
    logs = RoundLogs(str(tmp_path))
    for line in (b"one", b"two", b"three"):
        logs.write([line], round_number=1, rank=0)
    logs.close()
    assert logs.tail(max_bytes) == expected


def test_tail_reaches_over_a_rotation(tmp_path: Path) -> None:
    logs = RoundLogs(str(tmp_path), file_bytes=100)
    for number in range(20):
        logs.write([f"line {number:02}".encode()], round_number=1, rank=0)
    logs.close()
    lines = logs.tail(88).decode().split("\n")
    assert lines == [f"line {number:02}" for number in range(9, 20)] + [""]


def test_no_log_is_an_empty_tail(tmp_path: Path) -> None:
    assert RoundLogs(str(tmp_path / "none")).tail() == b""


def test_a_folder_that_cannot_be_written_does_not_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file where the folder should be")
    logs = RoundLogs(str(tmp_path / "logs"))
    logs.write([b"x"], round_number=1, rank=0)
    logs.note("y")
    assert logs.tail() == b""
