"""Recordings of real machines (from hwloc's and util-linux's test suites) are read as what they are.

They are not part of this repository: XEONTRAIN_TOPOLOGIES names the folder with the archives, by default
`../shared/data/topologies` beside the repository. The generated machines of the other modules run everywhere.
"""

from __future__ import annotations

import os
import re
import tarfile
from pathlib import Path

import pytest
from xeontrain_trainer.machine import format_cpus, read_machine
from xeontrain_trainer.plan import PlanRequest, auto_ranks, largest_ranks, make_plan

FOLDER = Path(
    os.environ.get("XEONTRAIN_TOPOLOGIES")
    or Path(__file__).resolve().parents[5] / "shared" / "data" / "topologies"
)
needs_recordings = pytest.mark.skipif(
    not FOLDER.is_dir() and "XEONTRAIN_TOPOLOGIES" not in os.environ,
    reason=f"no recordings in {FOLDER}: set XEONTRAIN_TOPOLOGIES to a folder that holds them",
)

# The files that are read, of the thousands in an archive.
READ = re.compile(
    r"/proc/(stat|cpuinfo|mounts|self/\w+)$|/cpuset/.*(cpus|mems)$|/cpuset\.|/cpu/online$|/cpu\d+/online$"
    r"|/topology/(thread_siblings|core_cpus|physical_package_id)|/node/has_\w+$|/node\d+/cpu(list|map)$"
)

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
def recording(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    target = tmp_path_factory.mktemp("recording")
    with tarfile.open(FOLDER / request.param) as archive:
        wanted = [member for member in archive.getmembers() if member.isfile() and READ.search(member.name)]
        archive.extractall(target, members=wanted, filter="tar")
    return next(target.iterdir())


@needs_recordings
@pytest.mark.parametrize(
    ("recording", "expected"),
    [pytest.param(name, values, id=name.split(".tar")[0]) for name, values in EXPECTED.items()],
    indirect=["recording"],
)
def test_recorded_machine(recording: Path, expected: tuple[str, int, int, list[int], int]) -> None:
    """Granted set, cores, nodes and the ranks that Auto takes are as a person reads them there."""
    machine = read_machine(str(recording))
    cpus, online, cores, nodes, ranks = expected
    assert format_cpus(machine.numbers) == cpus
    assert len(machine.online) == online
    assert len(machine.cores) == cores
    assert sorted({cpu.node for cpu in machine.cpus}) == nodes
    assert auto_ranks(machine) == ranks
    assert machine.model

    # Any number of ranks that fits has a plan inside the granted set.
    for ranks in range(1, largest_ranks(machine) + 1):
        plan = make_plan(machine, PlanRequest(ranks=ranks, workers=2))
        used = [cpu for rank in plan.ranks for cpu in (*rank.compute_cpus, *rank.comm_cpus)]
        assert len(used) == len(set(used))
        assert set(used) <= set(machine.numbers)
