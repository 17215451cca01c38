"""Real processes: ranks start together, every end is reported once, and nothing of them survives a stop."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from xeontrain_trainer.launcher.logs import RoundLogs
from xeontrain_trainer.launcher.processes import processes, reap_adopted
from xeontrain_trainer.launcher.supervisor import RankExit, Round, Supervisor, reap_orphans
from xeontrain_trainer.machine import read_machine
from xeontrain_trainer.plan import Plan, PlanRequest, make_plan

ORDER = Round(
    number=1,
    worker=0,
    workers=1,
    ranks_per_worker=2,
    master_addr="127.0.0.1",
    master_port=29500,
    run_id="uid-1",
)


def plan_for(ranks: int) -> Plan:
    """A plan for any number of ranks, also on a machine with fewer cores: all on the same CPUs."""
    first = make_plan(read_machine(), PlanRequest(ranks=1)).ranks[0]
    plan = make_plan(read_machine(), PlanRequest(ranks=1))
    return dataclasses.replace(
        plan, ranks=tuple(dataclasses.replace(first, local_rank=rank) for rank in range(ranks))
    )


class Run:
    """A supervisor with its logs, its reports and what it echoed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logs = RoundLogs(str(folder / "logs"))
        self.reports: list[RankExit] = []
        self.echoed = b""
        self.supervisor: Supervisor | None = None

    async def start(self, script: str | list[str], *, ranks: int = 2, order: Round = ORDER) -> Supervisor:
        command = ["sh", "-c", script] if isinstance(script, str) else script
        self.supervisor = Supervisor(
            command,
            state_dir=str(self.folder),
            environ=os.environ,
            logs=self.logs,
            on_exit=self.reports.append,
            working_dir=str(self.folder),
            echo=self._echo,
        )
        await self.supervisor.start(dataclasses.replace(order, ranks_per_worker=ranks), plan=plan_for(ranks))
        return self.supervisor

    def _echo(self, line: bytes) -> None:
        self.echoed += line

    def left(self) -> list[int]:
        """Live processes that belong to this run, found by the folder in their environment."""
        return [
            process.pid
            for process in processes()
            if process.alive and process.pid != os.getpid() and self._is_mine(process.pid)
        ]

    def _is_mine(self, pid: int) -> bool:
        try:
            return f"XEONTRAIN_PLAN_FILE={self.folder}/".encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Run]:
    reaper = asyncio.create_task(reap_orphans(interval_seconds=0.1))
    running = Run(tmp_path)
    yield running
    if running.supervisor is not None:
        await running.supervisor.stop(grace_seconds=0)
    running.logs.close()
    reaper.cancel()
    reap_adopted()


async def until(condition: Callable[[], bool]) -> None:
    async def look() -> None:
        while not condition():
            await asyncio.sleep(0.02)

    await asyncio.wait_for(look(), timeout=60)


async def test_all_ranks_run_and_report_once(run: Run) -> None:
    supervisor = await run.start("echo hello from $RANK of $WORLD_SIZE")
    exits = await supervisor.wait()
    assert sorted((exit_.rank, exit_.exit_code, exit_.message) for exit_ in exits) == [(0, 0, ""), (1, 0, "")]
    assert tuple(run.reports) == exits
    assert all(exit_.succeeded and not exit_.stopped for exit_ in exits)
    assert supervisor.alive == 0
    assert sorted(run.echoed.splitlines()) == [b"[rank 0] hello from 0 of 2", b"[rank 1] hello from 1 of 2"]
    assert (run.folder / "logs" / "round-1-rank-1.log").read_bytes() == b"hello from 1 of 2\n"
    plan = json.loads((run.folder / "plan.json").read_text())
    assert len(plan["ranks"]) == 2


async def test_a_single_rank_needs_no_prefix(run: Run) -> None:
    await (await run.start("echo a; echo b >&2", ranks=1)).wait()
    assert sorted(run.echoed.splitlines()) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("script", "exit_code", "number", "message"),
    [
        pytest.param("echo 'cannot read' >&2; exit 3", 3, None, "cannot read", id="last-line"),
        pytest.param("exit 3", 3, None, "ended with exit code 3 and no message", id="silent"),
        pytest.param("kill -SEGV $$", None, signal.SIGSEGV, "ended by SIGSEGV", id="signal"),
        pytest.param(
            'echo noise >&2; echo \'{"message": {"message": "E: x"}}\' > $TORCHELASTIC_ERROR_FILE; exit 65',
            65,
            None,
            "E: x",
            id="error-file",
        ),
        pytest.param(
            ["no-such"], 127, None, "command: the program no-such was not found in PATH", id="missing"
        ),
        pytest.param(
            [sys.executable, "-c", "raise ValueError('lr')"], 1, None, "ValueError: lr", id="python"
        ),
    ],
)
async def test_how_a_rank_ended(
    run: Run, script: str | list[str], exit_code: int | None, number: int | None, message: str
) -> None:
    (exit_,) = await (await run.start(script, ranks=1)).wait()
    assert (exit_.exit_code, exit_.signal, exit_.message) == (exit_code, number, message)
    assert exit_.user_error == (exit_code in (65, 127))


async def test_the_first_failure_is_reported_while_the_others_run(run: Run) -> None:
    supervisor = await run.start("[ $RANK = 1 ] && exit 9; exec sleep 600")
    await until(lambda: bool(run.reports))
    assert [exit_.rank for exit_ in run.reports] == [1]
    await until(lambda: supervisor.alive == 1)
    exits = await supervisor.stop()
    assert [(exit_.rank, exit_.signal, exit_.stopped) for exit_ in exits] == [
        (1, None, False),
        (0, signal.SIGTERM, True),
    ]


async def test_a_rank_may_end_by_itself_within_the_grace(run: Run) -> None:
    supervisor = await run.start(
        "trap 'echo saved; exit 75' TERM; echo ready; while :; do sleep 0.05; done", ranks=1
    )
    await until(lambda: b"ready" in run.echoed)
    (exit_,) = await supervisor.stop(grace_seconds=30)
    assert (exit_.exit_code, exit_.stopped) == (75, True)
    assert run.echoed.endswith(b"saved\n")


async def test_what_ignores_sigterm_is_killed_with_its_children(run: Run) -> None:
    """Children in the rank's group, in a group of their own and in a session of their own all end."""
    script = (
        "trap '' TERM; sleep 600 & set -m; sleep 600 & set +m; setsid sleep 600 & "
        "echo ready; while :; do sleep 0.05; done"
    )
    supervisor = await run.start(script)
    await until(lambda: run.echoed.count(b"ready") == 2)
    await until(lambda: len(run.left()) >= 8)
    exits = await supervisor.stop(grace_seconds=0.2)
    assert [exit_.signal for exit_ in exits] == [signal.SIGKILL, signal.SIGKILL]
    assert run.left() == []
    assert supervisor.alive == 0
    assert await supervisor.stop() == exits


async def test_children_left_behind_end_with_their_rank(run: Run) -> None:
    """They hold the output open, which must not delay the report, and would keep CPUs in the next round."""
    supervisor = await run.start("sleep 600 & setsid sleep 600 & echo left; exit 0")
    exits = await supervisor.wait()
    assert [exit_.exit_code for exit_ in exits] == [0, 0]
    assert run.echoed.count(b"left") == 2
    assert run.left() == []


async def test_no_zombies_stay(run: Run) -> None:
    """Orphans of ranks become children of the launcher and are collected."""
    supervisor = await run.start("(setsid sh -c 'sleep 0.1' &) ; (sleep 0.1 &) ; sleep 0.5")
    await supervisor.wait()
    await until(lambda: not [p for p in processes() if p.parent == os.getpid() and p.state == "Z"])


async def test_a_new_round_only_after_the_old(run: Run) -> None:
    """Rounds never overlap in one worker, and a new one starts with clean files and without the stop flag."""
    supervisor = await run.start(
        "[ -e $XEONTRAIN_STOP_FILE ] && exit 7; echo {} > $XEONTRAIN_METRICS_FILE; exec sleep 600"
    )
    await until(lambda: (run.folder / "metrics.json").exists())
    (run.folder / "progress.jsonl").write_text('{"step": 1}\n')
    supervisor.request_stop()
    assert (run.folder / "stop").exists()
    second = dataclasses.replace(ORDER, number=2)
    with pytest.raises(RuntimeError, match="still alive"):
        await supervisor.start(second, plan=plan_for(2))
    exits = await supervisor.stop()
    assert all(exit_.stopped for exit_ in exits)
    await supervisor.start(second, plan=plan_for(2))
    assert not (run.folder / "progress.jsonl").exists()
    assert not (run.folder / "stop").exists()
    await until(lambda: (run.folder / "metrics.json").exists())
    assert supervisor.alive == 2
    assert [exit_.round for exit_ in await supervisor.stop()] == [2, 2]


async def test_the_plan_must_be_for_as_many_ranks(run: Run) -> None:
    supervisor = await run.start("true")
    await supervisor.wait()
    with pytest.raises(ValueError, match="the plan is for 1 ranks, the order for 2"):
        await supervisor.start(ORDER, plan=plan_for(1))


async def test_a_flood_of_output_arrives_whole(run: Run) -> None:
    """Nothing is lost at the end of a rank that writes fast, on both streams."""
    await (await run.start("seq 20000; seq 20000 >&2", ranks=1)).wait()
    assert sorted(run.echoed.split()) == sorted(2 * [b"%d" % number for number in range(1, 20001)])


async def test_a_child_that_writes_for_ever_holds_nobody_up(run: Run) -> None:
    """The rank has ended, whatever its child still writes, and the child ends with it."""
    supervisor = await run.start("yes & exit 0", ranks=1)
    (exit_,) = await asyncio.wait_for(supervisor.wait(), timeout=60)
    assert exit_.succeeded
    assert run.left() == []


async def test_a_pipe_as_error_file_holds_nobody_up(run: Run) -> None:
    """What the rank said on its standard error counts then."""
    script = 'rm -f "$TORCHELASTIC_ERROR_FILE"; mkfifo "$TORCHELASTIC_ERROR_FILE"; echo why >&2; exit 3'
    supervisor = await run.start(script, ranks=1)
    (exit_,) = await asyncio.wait_for(supervisor.wait(), timeout=60)
    assert (exit_.exit_code, exit_.message) == (3, "why")
