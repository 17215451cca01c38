"""Threads of real processes end on the CPUs that the plan has for them, whatever was done to their masks."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from xeontrain_trainer.plan import Plan, RankPlan
from xeontrain_trainer.threads import (
    Home,
    Moved,
    ThreadKeeper,
    homes,
    is_worth_looking,
    thread_ids,
    thread_name,
)

ALL = sorted(os.sched_getaffinity(0))
two_cpus = pytest.mark.skipif(len(ALL) < 2, reason="needs two CPUs to tell one mask from the other")


def plan(*ranks: tuple[Iterable[int], Iterable[int]], cpus: Iterable[int], bound: bool = True) -> Plan:
    """A plan of these (compute CPUs, communication CPUs)."""
    return Plan(
        ranks=tuple(
            RankPlan(number, tuple(compute), len(tuple(compute)), tuple(comm), (), {})
            for number, (compute, comm) in enumerate(ranks)
        ),
        cpus=tuple(cpus),
        idle_cpus=(),
        bound=bound,
        warnings=(),
    )


# Two ranks of two CPUs, each with one for communication, and two CPUs that nobody uses.
FIRST = homes(plan(([0, 1], [4]), ([2, 3], [5]), cpus=range(8)))[0]
ALONE = homes(plan(([0, 1], [2]), cpus=range(3)))[0]


@pytest.mark.parametrize(
    ("home", "name", "mask", "wanted"),
    [
        pytest.param(FIRST, "python3", {0, 1}, None, id="where-it-belongs"),
        pytest.param(FIRST, "python3", {1}, None, id="bound-by-openmp"),
        pytest.param(FIRST, "python3", {4}, None, id="chosen-own-communication-cpu"),
        pytest.param(FIRST, "python3", {6, 7}, None, id="chosen-idle-cpus"),
        pytest.param(FIRST, "python3", {1, 2}, {0, 1}, id="reaches-into-another-rank"),
        pytest.param(FIRST, "python3", {5}, {0, 1}, id="on-anothers-communication-cpu"),
        pytest.param(FIRST, "python3", range(8), {0, 1}, id="reset"),
        pytest.param(ALONE, "python3", range(3), {0, 1}, id="reset-of-a-single-rank"),
        pytest.param(FIRST, "gloo_tcp_loop", {0, 1}, {4}, id="gloo-inherits"),
        pytest.param(FIRST, "pt_gloo_runloop", {0}, {4}, id="gloo-of-a-bound-main-thread"),
        pytest.param(FIRST, "pt_tcpstore_uv", range(8), {4}, id="store-reset"),
        pytest.param(FIRST, "gloo_tcp_loop", {4}, None, id="gloo-where-it-belongs"),
        pytest.param(FIRST, "gloo_tcp_loop", {6}, None, id="gloo-on-a-chosen-idle-cpu"),
        pytest.param(FIRST, "gloo_tcp_loop", {5}, {4}, id="gloo-on-anothers-cpu"),
        pytest.param(Home(frozenset({0}), frozenset(), frozenset({1}), frozenset({0, 1})), "gloo_tcp_loop",
                     {0}, None, id="no-communication-cpu"),
    ],
)  # fmt: skip
def test_where_a_thread_belongs(home: Home, name: str, mask: Iterable[int], wanted: set[int] | None) -> None:
    """What computes for another rank is taken back; a choice that harms nobody stays."""
    assert home.wanted(frozenset(mask), name=name) == wanted


@pytest.mark.parametrize(
    ("plan", "worth"),
    [
        (plan(([0, 1], [2]), cpus=range(3)), True),
        (plan(([0], []), ([1], []), cpus=range(2)), True),
        (plan(([0, 1], []), cpus=range(2)), False),
        (plan(([0, 1], []), ([0, 1], []), cpus=range(3), bound=False), False),
    ],
    ids=["communication", "two-ranks", "one-rank-on-everything", "not-pinned"],
)
def test_looks_only_where_a_thread_can_stray(plan: Plan, worth: bool) -> None:
    assert is_worth_looking(plan) is worth


SCRIPT = """
import ctypes, os, sys, threading
libc = ctypes.CDLL(None)

def thread(name, cpus=None):
    made = threading.Event()
    def run():
        libc.prctl(15, name.encode())
        if cpus:
            os.sched_setaffinity(0, cpus)
        made.set()
        threading.Event().wait()
    threading.Thread(target=run, daemon=True).start()
    made.wait()

os.sched_setaffinity(0, {first})
thread("gloo_tcp_loop"), thread("pt_tcpstore_uv"), thread("plain"), thread("reset", {all})
reader, writer = os.pipe()
if os.fork() == 0:
    thread("of-child", {all})
    os.write(writer, b"x")
    threading.Event().wait()
os.read(reader, 1)
print("ready", flush=True)
sys.stdin.read()
os.killpg(0, 9)
"""


@contextlib.contextmanager
def rank(first: set[int]) -> Iterator[int]:
    """A process whose main thread is bound to `first`, with named threads, one that has reset its mask, and a
    forked child with such a one."""
    script = SCRIPT.replace("{first}", str(first)).replace("{all}", str(set(ALL)))
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def family(pid: int) -> dict[int, int]:
    """The parents of the process and of its children, by id."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {pid: os.getpid(), **{int(child): pid for child in children}}


def masks(*pids: int) -> dict[str, set[int]]:
    """The mask of each thread by its name; `main` for main threads."""
    return {
        f"{'main' if tid == pid else thread_name(pid, tid)}/{number}": os.sched_getaffinity(tid)
        for number, pid in enumerate(pids)
        for tid in thread_ids(pid)
    }


@two_cpus
def test_threads_of_a_real_process_are_moved() -> None:
    """By name to the communication CPU, from everywhere back to the compute CPU; children too; told once."""
    compute, comm = ALL[:1], ALL[1:2]
    keeper, laid_out = ThreadKeeper(), plan((compute, comm), cpus=ALL)
    with rank(set(compute)) as pid:
        parents = family(pid)
        moved = keeper.look(laid_out, parents={0: parents})
        assert moved == [Moved(0, "communication", 2), Moved(0, "compute", 2)]
        assert masks(*parents) == {
            "main/0": set(compute),
            "gloo_tcp_loop/0": set(comm),
            "pt_tcpstore_uv/0": set(comm),
            "plain/0": set(compute),
            "reset/0": set(compute),
            "main/1": set(compute),
            "of-child/1": set(compute),
        }
        assert keeper.look(laid_out, parents={0: parents}) == []


@two_cpus
def test_a_worker_gets_back_what_its_bound_parent_could_not_give() -> None:
    """OpenMP has bound the main thread to one CPU; a worker forked from it may use all of the rank's."""
    compute = ALL[:2]
    laid_out = plan((compute, ()), cpus=[*ALL, max(ALL) + 1])
    with rank({ALL[0]}) as pid:
        parents = family(pid)
        assert [m.kind for m in ThreadKeeper().look(laid_out, parents={0: parents})] == ["compute"]
        found = masks(*parents)
        assert found["main/0"] == {ALL[0]}
        assert found["main/1"] == set(compute)


def test_processes_that_are_gone_are_passed_over() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    laid_out = plan((ALL[:1], ()), cpus=[*ALL, max(ALL) + 1])
    assert ThreadKeeper().look(laid_out, parents={0: {gone.pid: 1}}) == []
