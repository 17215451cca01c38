"""A contest of real processes that only pretend to train: order, disqualification, failures, environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.bench_train.contest import Contender, contest
from tests.bench_train.launchers import OURS, launchers
from tests.bench_train.process import BenchError, Command, clean_environment

# Two steps of a second each that ended just now, in the form of the scripts' report.
REPORT = (
    "import json, time; now = time.monotonic(); json.dump({{'worldSize': {world_size}, 'samplesPerStep': 4, "
    "'steps': [[now - 2, now - 1], [now - 1, now]]}}, open('report.json', 'w'))"
)


def _contender(name: str, *, world_size: int = 2, ranks: int = 2) -> Contender:
    code = REPORT.format(world_size=world_size)
    return Contender(name, lambda folder: Command((sys.executable, "-S", "-c", code)), ranks=ranks)


def test_rounds_change_their_order_and_drop_who_did_other_work() -> None:
    """The order is reversed in every second round; a contender that trained alone runs once."""
    said: list[str] = []
    contenders = [_contender("a"), _contender("alone", world_size=1), _contender("b")]
    outcomes = contest(contenders, rounds=2, gate=False, counts=lambda measured: True, say=said.append)
    order = [line.split()[2].rstrip(":") for line in said]
    assert order == ["a", "alone", "b", "b", "a"]
    assert [len(outcome.rounds) for outcome in outcomes] == [2, 1, 2]
    assert [outcome.disqualified for outcome in outcomes] == [
        None,
        "trained 1 rank, not 2 together",
        None,
    ]
    assert outcomes[0].rounds[0].run.samples_per_second == pytest.approx(4.0)


def test_a_failure_tells_the_contenders_words() -> None:
    """A contender that fails ends the contest with its exit code and the end of what it printed."""
    code = "import sys; print('no such model'); sys.exit(3)"
    failing = Contender("x", lambda folder: Command((sys.executable, "-c", code)), ranks=1)
    with pytest.raises(BenchError, match=r"exit code 3\nno such model"):
        contest([failing], rounds=1, gate=False, counts=lambda measured: True, say=lambda text: None)


def test_a_contender_that_reports_nothing_is_no_result(tmp_path: Path) -> None:
    """A job whose progress never appears does not pass for a measurement."""
    idle = Contender("x", lambda folder: Command((sys.executable, "-c", "")), ranks=1, batch_size=4)
    with pytest.raises(BenchError, match="no step was reported"):
        contest([idle], rounds=1, gate=False, counts=lambda measured: True, say=lambda text: None)


def test_no_setting_of_the_shell_reaches_a_contender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thread counts, allocators and places of another launcher stay outside."""
    unwanted = (
        "OMP_NUM_THREADS",
        "LD_PRELOAD",
        "MALLOC_TOP_PAD_",
        "KMP_AFFINITY",
        "RANK",
        "XEONTRAIN_PINNING",
    )
    for name in unwanted:
        monkeypatch.setenv(name, "1")
    assert not set(unwanted) & set(clean_environment(tmp_path))


@pytest.mark.parametrize("ranks", [1, 2])
def test_launchers_start_the_identical_script(tmp_path: Path, ranks: int) -> None:
    """The script and its options are the same, to the letter, under each launcher."""
    script = ["ddp.py", "--steps", "7"]
    found = launchers(script, ranks=ranks, cpus=2)
    commands = {contender.name: contender.command(tmp_path).argv for contender in found}
    wanted = (*script, "--report", str(tmp_path / "report.json"))
    assert len(commands) == 4
    for name, argv in commands.items():
        if name != OURS:
            assert argv[-len(wanted) :] == wanted
    job = (tmp_path / "job.yaml").read_text(encoding="utf-8")
    assert all(f'"{argument}"' in job for argument in wanted)
    assert {contender.ranks for contender in found} == {ranks}
