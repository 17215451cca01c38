"""The supervisor as process 1 of a container: orphans are collected and nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.settings import must_run_all

# Without root a user namespace gives the right to make the other.
USER = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
UNSHARE = ["unshare", *USER, "--pid", "--fork", "--mount-proc"]

SCRIPT = """
import asyncio, os, sys
from xeontrain_trainer.launcher.logs import RoundLogs
from xeontrain_trainer.launcher.processes import processes
from xeontrain_trainer.launcher.supervisor import Round, Supervisor, reap_orphans
from xeontrain_trainer.machine import read_machine
from xeontrain_trainer.plan import PlanRequest, make_plan

async def main():
    assert os.getpid() == 1
    reaper = asyncio.create_task(reap_orphans(interval_seconds=0.05))
    logs = RoundLogs(sys.argv[1] + "/logs")
    ended = asyncio.Event()
    supervisor = Supervisor(
        ["sh", "-c", "(setsid sleep 0.2 &); (sleep 0.2 &); setsid sleep 600 & exit 9"],
        state_dir=sys.argv[1], environ=os.environ, logs=logs, on_exit=lambda _: ended.set(),
    )
    order = Round(1, 0, 1, 1, "127.0.0.1", 29500, "uid-1")
    await supervisor.start(order, plan=make_plan(read_machine(), PlanRequest(ranks=1)))
    (exit_,) = await supervisor.wait()
    # An orphan of an exec into the container: its parent ends, and it becomes ours.
    os.spawnlp(os.P_WAIT, "setsid", "setsid", "--wait", "sh", "-c", "sleep 0.1 &")
    while [process for process in processes() if process.pid != 1]:
        await asyncio.sleep(0.05)
    reaper.cancel()
    logs.close()
    print(exit_.exit_code, flush=True)

asyncio.run(asyncio.wait_for(main(), timeout=60))
"""


def may_unshare() -> bool:
    try:
        done = subprocess.run([*UNSHARE, "true"], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


@pytest.mark.skipif(
    not must_run_all() and not may_unshare(), reason="needs user and PID namespaces (util-linux's unshare)"
)
def test_as_process_one(tmp_path: Path) -> None:
    """Until the end no other process is left in the namespace, dead or alive."""
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("9\n", "", 0)
