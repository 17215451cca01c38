"""What the plan says arrives in the ranks of a real launcher, and stays so whatever libraries do."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from xeontrain_trainer.launcher.placement import describe
from xeontrain_trainer.launcher.processes import processes
from xeontrain_trainer.threads import COMMUNICATION_NAMES, Moved, thread_ids, thread_name

from tests.unit.trainer.launcher.loopback import Gang, eventually
from tests.unit.trainer.test_rank import may_set_memory_policy
from tests.unit.trainer.test_threads import ALL, plan, two_cpus

pytestmark = [two_cpus, pytest.mark.timeout(600)]

FIRST, SECOND = ALL[:2] if len(ALL) > 1 else (0, 0)

# The first two CPUs of this machine, as the hardware threads of one core: one computes, one communicates.
# While there is a file `small` beside the pods' folders, the pod has the first of them alone.
SIBLINGS = f"""
import dataclasses, os, runpy
from xeontrain_trainer.launcher import layout, main
found = layout.read_machine(cpus=[{FIRST}, {SECOND}])
core = tuple(dataclasses.replace(cpu, core={FIRST}, node=0) for cpu in found.cpus)
layout.read_machine = lambda: dataclasses.replace(found, cpus=core[: 1 if os.path.exists("../small") else 2])
main.LOOK_AGAIN_SECONDS = 0.2
runpy.run_module("xeontrain_trainer.launcher", run_name="__main__", alter_sys=True)
"""

# Says what it was given, then behaves as a library that means well.
RESETS = """
import json, os, sys, time
folder, rank = sys.argv[1], os.environ["RANK"]
given = {"affinity": sorted(os.sched_getaffinity(0)), "environ": dict(os.environ)}
os.sched_setaffinity(0, range(os.cpu_count()))
with open(f"{folder}/{rank}.tmp", "w") as file:
    json.dump(given, file)
os.rename(f"{folder}/{rank}.tmp", f"{folder}/{rank}.json")
time.sleep(600)
"""


def ranks_of(gang: Gang) -> dict[int, int]:
    """The process of each rank, by its number, once all have said what they were given."""
    places = {}
    for process in processes():
        try:
            environ = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        named = dict(item.split(b"=", 1) for item in environ if b"=" in item)
        ours = os.fsencode(str(gang.folder)) in named.get(b"XEONTRAIN_PLAN_FILE", b"")
        if ours and process.session == process.pid:
            places[int(named[b"RANK"])] = process.pid
    return places


def given(folder: Path, *, ranks: int) -> list[dict[str, Any]]:
    """What each rank has said."""
    files = [folder / f"{rank}.json" for rank in range(ranks)]
    eventually(lambda: all(file.exists() for file in files), "all ranks have spoken")
    return [json.loads(file.read_text()) for file in files]


def test_the_plan_arrives_and_a_reset_does_not_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks in one worker: each begins on a CPU of its own with all of the plan's variables, takes all
    CPUs, and is put back. A value of the user's wins and is told."""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    command = [sys.executable, "-c", RESETS, str(tmp_path)]
    with Gang(tmp_path, workers=1, command=command, RANKS_PER_WORKER=2) as gang:
        said = given(tmp_path, ranks=2)
        written = json.loads((gang.pods[0].state / "plan.json").read_text())["ranks"]
        assert [one["affinity"] for one in said] == [rank["computeCpus"] for rank in written]
        for one, rank in zip(said, written, strict=True):
            assert {name: one["environ"].get(name) for name in rank["environment"]} == rank["environment"]
            assert (one["environ"]["OMP_NUM_THREADS"], one["environ"]["GLOO_SOCKET_IFNAME"]) == ("3", "eth7")
        assert "OMP_NUM_THREADS=3 is set in the environment and wins over 1" in gang.pods[0].said()
        assert [text.split()[0] for text in gang.pods[0].status()["warnings"] if "wins" in text] == [
            "GLOO_SOCKET_IFNAME=eth7",
            "OMP_NUM_THREADS=3",
        ]
        pids = ranks_of(gang)
        for rank, pid in pids.items():
            maps = Path(f"/proc/{pid}/numa_maps")
            bound = bool(written[rank]["nodes"]) and may_set_memory_policy()
            assert not maps.exists() or (" bind:" in maps.read_text()) == bound
        eventually(
            lambda: all(
                sorted(os.sched_getaffinity(pids[rank])) == written[rank]["computeCpus"] for rank in range(2)
            ),
            "both ranks are back on their CPUs",
        )
        assert "that had another affinity than the rank's put back on CPUs" in gang.pods[0].said()


TORCH = """
import json, os, sys, time
import torch, torch.distributed as dist
from torch.utils.data import DataLoader

class Where:
    def __len__(self):
        return 2
    def __getitem__(self, index):
        return [os.getpid(), sorted(os.sched_getaffinity(0))]

dist.init_process_group("gloo")
total = torch.ones(1 << 20)
dist.all_reduce(total)
assert total[0] == dist.get_world_size() == 2
# What libraries do that know the machine and not the pod.
os.sched_setaffinity(0, range(os.cpu_count()))
loader = DataLoader(Where(), batch_size=None, num_workers=2, persistent_workers=True)
next(iter(loader))
folder, rank = sys.argv[1], os.environ["RANK"]
with open(f"{folder}/{rank}.tmp", "w") as file:
    json.dump({"threads": torch.get_num_threads()}, file)
os.rename(f"{folder}/{rank}.tmp", f"{folder}/{rank}.json")
time.sleep(600)
"""


def masks_below(pid: int) -> dict[str, set[int]]:
    """By name the CPUs of all threads of the rank's session; `worker` for other processes of it."""
    found: dict[str, set[int]] = {}
    for process in processes():
        if process.session == pid and process.alive:
            for tid in thread_ids(process.pid):
                name = thread_name(process.pid, tid) if process.pid == pid else "worker"
                try:
                    found.setdefault(name, set()).update(os.sched_getaffinity(tid))
                except ProcessLookupError:
                    continue
    return found


@pytest.mark.torch
def test_threads_of_a_plain_torch_script(tmp_path: Path) -> None:
    """A script that knows nothing of the plan: gloo's and the store's threads communicate on the sibling
    thread, everything else, DataLoader workers included, computes on the first."""
    command = [sys.executable, "-c", TORCH, str(tmp_path)]
    gang = Gang(tmp_path, workers=2, command=command, RANKS_PER_WORKER=1)
    gang.launcher = ["-c", SIBLINGS]
    with gang:
        assert [one["threads"] for one in given(tmp_path, ranks=2)] == [1, 1]
        for rank, pid in ranks_of(gang).items():

            def settled(pid: int = pid) -> dict[str, set[int]] | None:
                masks = masks_below(pid)
                homes = {
                    name: {SECOND} if name.startswith(COMMUNICATION_NAMES) else {FIRST} for name in masks
                }
                return masks if masks == homes else None

            masks = eventually(settled, f"the threads of rank {rank} are where they belong")
            assert {"gloo_tcp_loop", "pt_gloo_runloop", "worker"} <= set(masks)
            assert any(name.startswith("pt_tcpstore") for name in masks) == (rank == 0)
        assert "communication thread" in gang.pods[0].said()


GLOO_ALIKE = """
import ctypes, json, os, sys, threading, time
def communicate():
    ctypes.CDLL(None).prctl(15, b"gloo_tcp_loop")
    time.sleep(600)
threading.Thread(target=communicate, daemon=True).start()
folder, rank = sys.argv[1], os.environ["RANK"]
with open(f"{folder}/{rank}.tmp", "w") as file:
    json.dump(None, file)
os.rename(f"{folder}/{rank}.tmp", f"{folder}/{rank}.json")
time.sleep(600)
"""


def test_a_set_that_changes_under_running_ranks_is_followed_and_told(tmp_path: Path) -> None:
    """The pod gets a CPU more: communication moves there, and the status says what has changed."""
    gang = Gang(tmp_path, workers=2, command=[sys.executable, "-c", GLOO_ALIKE, str(tmp_path)])
    gang.launcher = ["-c", SIBLINGS]
    (tmp_path / "small").touch()
    with gang:
        given(tmp_path, ranks=2)
        pod, pid = gang.pods[1], ranks_of(gang)[1]
        assert pod.status()["cpu"]["changed"] == ""
        assert set(map(frozenset, masks_below(pid).values())) == {frozenset({FIRST})}
        (tmp_path / "small").unlink()
        told = pod.wait_for("the change is told", lambda status: status["cpu"]["changed"])["cpu"]
        assert f"its CPU set was {FIRST} when its ranks started" in told["changed"]
        eventually(lambda: masks_below(pid).get("gloo_tcp_loop") == {SECOND}, "communication moves")
        eventually(
            lambda: any(
                (member["cpu"] or {}).get("changed")
                for member in gang.pods[0].status()["members"]
                if member["worker"] == 1
            ),
            "worker 0 hears of it",
        )


def test_what_was_moved_is_told_in_a_line() -> None:
    laid_out = plan(([0, 1], [8]), ([2, 3], [9]), cpus=range(10))
    assert describe(Moved(1, "communication", 3), laid_out) == (
        "local rank 1: 3 communication threads put on CPUs 9"
    )
    assert describe(Moved(0, "compute", 1), laid_out) == (
        "local rank 0: 1 thread that had another affinity than the rank's put back on CPUs 0-1"
    )
