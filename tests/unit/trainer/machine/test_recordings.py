"""Recordings of real machines (from hwloc's and util-linux's test suites) are read as what they are, and have
a plan for any part of their CPUs."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

import pytest
from xeontrain_trainer.machine import Cpu, Machine, format_cpus, read_machine
from xeontrain_trainer.plan import PlanRequest, auto_ranks, largest_ranks

from tests.unit.trainer.plan.invariants import check
from tests.unit.trainer.recordings import FOLDER, needs_recordings

# archive: granted CPUs, online CPUs, physical cores granted, their NUMA nodes, ranks that Auto takes
EXPECTED = {
    "16amd64-8n2c-cpusets.tar.bz2": ("0-3,5-6,12-15", 15, 10, [0, 1, 2, 3, 6, 7], 6),
    "16em64t-4s2c2t.tar.bz2": ("0-15", 16, 8, [0], 1),
    "16em64t-4s2c2t-offlines.tar.bz2": ("0-1,3-4,6-12,15", 12, 7, [0], 1),
    "20em64t-hybrid-1p6c2t+2ca4co1t.tar.bz2": ("0-19", 20, 14, [0], 1),
    "32amd64-4s2n4c-cgroup2.tar.bz2": ("0-5", 32, 6, [0, 1], 2),
    "32em64t-2n8c+dax+nvme+mic+dimms.tar.bz2": ("0-15", 16, 16, [0, 1], 2),
    "40intel64-4n10c+pci-conflicts.tar.bz2": ("0-39", 40, 40, [0, 1, 2, 3], 4),
    "48amd64-4pa2n6c-sparse.tar.bz2": ("0-47", 48, 48, [0, 1, 2, 33, 34, 45, 72, 73], 8),
    "96em64t-4no4pa3ca2co.tar.bz2": ("0-95", 96, 96, [0, 1, 2, 3], 4),
    "lscpu-x86_64-64cpu-linux6.2.tar.gz": ("0-7", 8, 4, [0], 1),
}


@pytest.fixture(scope="module")
def recorded(request: pytest.FixtureRequest) -> tuple[str, Machine]:
    return request.param, read_machine(str(FOLDER / request.param))


each = pytest.mark.parametrize(
    "recorded", [pytest.param(name, id=name.split(".tar")[0]) for name in EXPECTED], indirect=True
)


@needs_recordings
@each
def test_recorded_machine(recorded: tuple[str, Machine]) -> None:
    """Granted set, cores, nodes and the ranks that Auto takes are as a person reads them there."""
    name, machine = recorded
    cpus, online, cores, nodes, ranks = EXPECTED[name]
    assert format_cpus(machine.numbers) == cpus
    assert len(machine.online) == online
    assert len(machine.cores) == cores
    assert sorted({cpu.node for cpu in machine.cpus}) == nodes
    assert auto_ranks(machine) == ranks
    assert machine.model
    assert machine.caches


def parts(machine: Machine) -> Iterator[tuple[Cpu, ...]]:
    """The whole set and parts of it: halves, one thread a core, every second CPU, a few by chance."""
    cpus, half = machine.cpus, (len(machine.cpus) + 1) // 2
    yield from (cpus, cpus[:half], cpus[-half:], cpus[::2], cpus[:1])
    yield tuple(core[0] for core in machine.cores)
    rng = random.Random(7)
    for _ in range(4):
        chosen = set(rng.sample(machine.numbers, rng.randint(1, len(cpus))))
        yield tuple(cpu for cpu in cpus if cpu.number in chosen)


@needs_recordings
@each
def test_plans_of_any_part(recorded: tuple[str, Machine]) -> None:
    """Every promise of the plan holds for each number of ranks up to the nodes and beyond, on each part."""
    for cpus in parts(recorded[1]):
        machine = dataclasses.replace(recorded[1], cpus=cpus)
        most = largest_ranks(machine)
        for ranks in [None, *range(1, min(most, 12) + 1), most]:
            check(machine, PlanRequest(ranks=ranks, workers=2))


@needs_recordings
def test_a_hybrid_machine_is_known_as_one() -> None:
    """Six fast cores of two threads, eight slower ones: a rank computes on the fast ones."""
    machine = read_machine(str(FOLDER / "20em64t-hybrid-1p6c2t+2ca4co1t.tar.bz2"))
    assert format_cpus(cpu.number for cpu in machine.cpus if cpu.efficient) == "12-19"
    plan = check(machine, PlanRequest(workers=2))
    assert format_cpus(plan.ranks[0].compute_cpus) == "0,2,4,6,8,10"
