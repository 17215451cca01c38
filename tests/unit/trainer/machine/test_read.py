"""The machine is read from what the kernel shows to a container; host counts never stand in for a CPU set."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xeontrain_trainer.machine import Cache, MachineError, count_oom_kills, read_machine

from tests.unit.trainer.machines import Pair, build, cpuinfo, mask, pack, small_pairs, tree_of, write

WHOLE = build(sockets=2, cores=4, threads=2)


@given(small_pairs, st.booleans(), st.booleans())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_reads_back_any_machine(
    tmp_path_factory: pytest.TempPathFactory, pair: Pair, masks: bool, packed: bool
) -> None:
    """What is written as files of /sys and /proc is read as the same machine: in lists and in masks, from a
    folder and from a tar."""
    machine = pair.granted
    root = tmp_path_factory.mktemp("machine")
    write(root, tree_of(machine, pair.whole, masks=masks))
    read = read_machine(str(pack(root)) if packed else str(root))
    assert read.cpus == machine.cpus
    assert read.online == machine.online
    assert read.memory_nodes == machine.memory_nodes
    assert read.features == ("AVX2", "AVX512F")
    assert read.quota_cpus == (
        None if machine.quota_cpus is None else pytest.approx(machine.quota_cpus, abs=1e-5)
    )


CONTAINER_V1 = {
    # Without a cgroup namespace /proc/self/cgroup names the path on the host, and the mount's root the same.
    "proc/self/cgroup": "4:cpuset:/kubepods/pod1/c1\n3:cpu,cpuacct:/kubepods/pod1/c1\n",
    "proc/self/mountinfo": (
        "31 23 0:28 /kubepods/pod1/c1 /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n"
        "32 23 0:29 /kubepods/pod1/c1 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
    ),
    "sys/fs/cgroup/cpuset/cpuset.cpus": "2-3\n",
    "sys/fs/cgroup/cpuset/cpuset.mems": "0\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "150000\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
}
PROCESS_V1 = {
    "proc/self/cgroup": "4:cpuset:/a/b\n3:cpu:/a/b\n",
    "proc/self/mountinfo": (
        "31 23 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
        "32 23 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    ),
    "sys/fs/cgroup/cpuset/cpuset.cpus": "0-15\n",
    "sys/fs/cgroup/cpuset/a/b/cpuset.cpus": "2-3\n",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "150000\n",
    "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us": "400000\n",
    "sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us": "100000\n",
}
PROCESS_V2 = {
    "proc/self/cgroup": "0::/a/b\n",
    "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "sys/fs/cgroup/cpuset.cpus.effective": "0-15\n",
    "sys/fs/cgroup/a/b/cpuset.cpus.effective": "2-3\n",
    "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
    "sys/fs/cgroup/a/cpu.max": "75000 50000\n",
}
# systemd hands the cpuset controller down only as far as somebody has asked for it.
PARENT_V2 = {
    **{path: text for path, text in PROCESS_V2.items() if "cpuset" not in path},
    "sys/fs/cgroup/cpuset.cpus.effective": "0-15\n",
    "sys/fs/cgroup/a/cpuset.cpus.effective": "2-3\n",
}
HYBRID = {
    **PROCESS_V1,
    "proc/self/mountinfo": PROCESS_V1["proc/self/mountinfo"]
    + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
    "proc/self/cgroup": PROCESS_V1["proc/self/cgroup"] + "0::/\n",
}
BARE_CPUSET = {
    "proc/self/cpuset": "/dummy\n",
    "proc/mounts": "none /dev/cpuset cpuset rw 0 0\n",
    "dev/cpuset/dummy/cpus": "2-3\n",
}
STATUS_ONLY = {"proc/self/status": "Name:\tx\nCpus_allowed_list:\t2-3\nMems_allowed_list:\t0\n"}


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        pytest.param(CONTAINER_V1, 1.5, id="cgroup-v1-container"),
        pytest.param(PROCESS_V1, 1.5, id="cgroup-v1-ancestor-quota"),
        pytest.param(PROCESS_V2, 1.5, id="cgroup-v2-ancestor-quota"),
        pytest.param(PARENT_V2, 1.5, id="cgroup-v2-set-of-an-ancestor"),
        pytest.param(HYBRID, 1.5, id="hybrid"),
        pytest.param(BARE_CPUSET, None, id="cpuset-file-system"),
        pytest.param(STATUS_ONLY, None, id="no-cgroup-files"),
    ],
)
def test_finds_the_granted_set_and_the_quota(
    tmp_path: Path, files: dict[str, str], quota: float | None
) -> None:
    """In every layout of control groups the set is 2-3 and never the host's 0-15."""
    tree = {path: text for path, text in tree_of(WHOLE, WHOLE).items() if "cgroup" not in path}
    tree.pop("proc/self/mountinfo")
    write(tmp_path, {**tree, **files})
    machine = read_machine(str(tmp_path))
    assert machine.numbers == (2, 3)
    assert machine.quota_cpus == quota
    assert len(machine.online) == 16


def test_a_list_given_by_hand_wins_over_the_recording(tmp_path: Path) -> None:
    write(tmp_path, tree_of(build(cores=4, granted=[0]), build(cores=4)))
    assert read_machine(str(tmp_path), cpus=[1, 2, 99]).numbers == (1, 2)


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"proc/stat": "cpu  1 2\ncpu0 1\ncpu1 1\ncpu5 1\nintr 3\n"}, id="proc-stat"),
        pytest.param(
            {
                f"sys/devices/system/cpu/cpu{number}/topology/core_id": "0"
                for number in (0, 1, 5)
            },
            id="folders",
        ),
        pytest.param(
            {
                "proc/stat": "cpu0 1\ncpu1 1\ncpu3 1\ncpu5 1\n",
                "sys/devices/system/cpu/cpu3/online": "0\n",
            },
            id="flag-of-each-cpu",
        ),
    ],
)  # fmt: skip
def test_offline_and_sparse_cpus_without_the_online_file(tmp_path: Path, files: dict[str, str]) -> None:
    """Without topology each CPU is a core of its own on node 0."""
    write(tmp_path, files)
    machine = read_machine(str(tmp_path))
    assert machine.numbers == (0, 1, 5)
    assert [(cpu.core, cpu.socket, cpu.node) for cpu in machine.cpus] == [(0, 0, 0), (1, 0, 0), (5, 0, 0)]
    assert machine.memory_nodes == ()
    assert machine.instruction_set == "baseline"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param("fpu", "baseline", id="none"),
        pytest.param("avx2", "AVX2", id="avx2"),
        pytest.param("avx2 avx512f", "AVX512", id="skylake"),
        pytest.param("avx2 avx512f avx512_vnni", "AVX512_VNNI", id="ice-lake"),
        pytest.param("avx2 avx512f avx512_vnni avx512_bf16", "AVX512_BF16", id="cooper-lake"),
        pytest.param(
            "avx2 avx512f avx512_vnni avx512_bf16 amx_bf16 amx_tile amx_int8", "AMX", id="sapphire-rapids"
        ),
    ],
)
def test_best_instruction_set(tmp_path: Path, flags: str, expected: str) -> None:
    write(tmp_path, {"proc/stat": "cpu0 1\n", "proc/cpuinfo": cpuinfo(0, flags=flags)})
    assert read_machine(str(tmp_path)).instruction_set == expected


def test_only_what_every_granted_cpu_has_counts(tmp_path: Path) -> None:
    """Two kinds of cores are marked as mixed, and the weaker one decides; a CPU outside the set does not."""
    blocks = [
        cpuinfo(0, flags="avx2 avx512f"),
        cpuinfo(1, flags="avx2"),
        cpuinfo(2, model="Other", flags="fpu"),
    ]
    write(tmp_path, {"proc/stat": "cpu0 1\ncpu1 1\ncpu2 1\n", "proc/cpuinfo": "\n".join(blocks)})
    machine = read_machine(str(tmp_path), cpus=[0, 1])
    assert (machine.instruction_set, machine.mixed) == ("AVX2", True)


def test_memory_nodes_are_those_allowed_that_have_memory(tmp_path: Path) -> None:
    tree = tree_of(WHOLE, WHOLE)
    tree["sys/devices/system/node/has_memory"] = "1\n"
    write(tmp_path, tree)
    assert read_machine(str(tmp_path)).memory_nodes == (1,)


CPU0 = "sys/devices/system/cpu/cpu0"


def test_dies_and_caches(tmp_path: Path) -> None:
    """Threads that share a level-3 cache are known by the first of them; sizes are those of the first CPU."""
    files = {"proc/stat": "cpu0 1\ncpu1 1\ncpu2 1\n"}
    for number, (die, shared) in enumerate([("0", "0-1"), ("0", "0-1"), ("1", "2")]):
        folder = f"sys/devices/system/cpu/cpu{number}"
        files[f"{folder}/topology/die_id"] = die
        for index, (level, kind, size) in enumerate([(1, "Data", "48K"), (3, "Unified", "105M")]):
            files |= {
                f"{folder}/cache/index{index}/level": f"{level}\n",
                f"{folder}/cache/index{index}/type": f"{kind}\n",
                f"{folder}/cache/index{index}/size": f"{size}\n",
                f"{folder}/cache/index{index}/shared_cpu_list": shared if level == 3 else f"{number}",
            }
    write(tmp_path, files)
    machine = read_machine(str(tmp_path))
    assert [(cpu.die, cpu.l3) for cpu in machine.cpus] == [(0, 0), (0, 0), (1, 2)]
    assert machine.caches == (Cache(1, "Data", 48, 1), Cache(3, "Unified", 105 * 1024, 2))


@pytest.mark.parametrize(
    ("files", "slower"),
    [
        pytest.param({"sys/devices/cpu_atom/cpus": "2-3"}, [2, 3], id="intels-list"),
        pytest.param({"sys/devices/cpu_atom/cpus": "7"}, [], id="none-of-them-granted"),
        pytest.param({f"{CPU0[:-1]}3/cpufreq/cpuinfo_max_freq": "3900000"}, [3], id="much-lower-clock"),
        pytest.param({f"{CPU0[:-1]}3/cpufreq/cpuinfo_max_freq": "4800000"}, [], id="favoured-cores"),
        pytest.param({}, [], id="unknown"),
    ],
)
def test_the_slower_kind_of_core(tmp_path: Path, files: dict[str, str], slower: list[int]) -> None:
    clocks = {f"{CPU0[:-1]}{n}/cpufreq/cpuinfo_max_freq": "5000000" for n in range(4)} if files else {}
    write(tmp_path, {"proc/stat": "cpu0 1\ncpu1 1\ncpu2 1\ncpu3 1\n", **clocks, **files})
    machine = read_machine(str(tmp_path))
    assert [cpu.number for cpu in machine.cpus if cpu.efficient] == slower


def test_memory_without_cpus_is_a_node_of_its_own(tmp_path: Path) -> None:
    """As with memory behind CXL: no rank lives there, and memory may come from there."""
    tree = tree_of(WHOLE, dataclasses.replace(WHOLE, memory_nodes=(0, 1, 4)))
    tree["sys/fs/cgroup/cpuset.mems.effective"] = "0-1,4\n"
    write(tmp_path, tree)
    machine = read_machine(str(tmp_path))
    assert machine.memory_nodes == (0, 1, 4)
    assert {cpu.node for cpu in machine.cpus} == {0, 1}


@pytest.mark.parametrize(
    ("files", "cpus", "sentence"),
    [
        pytest.param({}, None, "names no CPU", id="nothing-there"),
        pytest.param({"proc/stat": "cpu0 1\n"}, [7], "the list 7 holds none", id="list-of-other-cpus"),
        pytest.param({"proc/stat": "cpu0 1\n"}, [], "(empty)", id="empty-list"),
    ],
)
def test_no_cpu_left_is_an_error(
    tmp_path: Path, files: dict[str, str], cpus: list[int] | None, sentence: str
) -> None:
    write(tmp_path, files)
    with pytest.raises(MachineError) as raised:
        read_machine(str(tmp_path), cpus=cpus)
    assert sentence in str(raised.value)


RUBBISH = {
    "empty": "",
    "binary": "\x00\xff",
    "letters": "abc",
    "huge-number": "9" * 400,
    "huge-mask": "f" * 3_000_000,
    "negative": "-5",
    "half-a-range": "1-",
    "digit-of-another-kind": "processor : \u00b2",
    "group-of-no-path": "0::/a\x00b",
}


@pytest.mark.parametrize("rubbish", [pytest.param(text, id=name) for name, text in RUBBISH.items()])
def test_rubbish_in_any_file_is_survived(tmp_path: Path, rubbish: str) -> None:
    """Every file of the tree in turn holds rubbish: the machine is read, or refused with MachineError."""
    machine = build(cores=2, threads=2)
    tree = tree_of(machine, machine)
    write(tmp_path, tree)
    for path, text in tree.items():
        (tmp_path / path).write_text(rubbish)
        with contextlib.suppress(MachineError):
            assert set(read_machine(str(tmp_path)).numbers) <= {0, 1, 2, 3}
        (tmp_path / path).write_text(text)


@pytest.mark.timeout(20)
def test_a_pipe_in_place_of_any_file_is_a_missing_file(tmp_path: Path) -> None:
    """Whoever opens a pipe that nobody writes to waits without end."""
    machine = build(cores=2, threads=2)
    tree = tree_of(machine, machine)
    write(tmp_path, tree)
    for path, text in tree.items():
        (tmp_path / path).unlink()
        os.mkfifo(tmp_path / path)
        with contextlib.suppress(MachineError):
            assert set(read_machine(str(tmp_path)).numbers) <= {0, 1, 2, 3}
        (tmp_path / path).unlink()
        (tmp_path / path).write_text(text)


def test_a_model_s_name_cannot_steer_a_terminal(tmp_path: Path) -> None:
    write(tmp_path, {"proc/stat": "cpu0 1\n", "proc/cpuinfo": cpuinfo(0, model="Xe\x1b[2J\x07on")})
    assert read_machine(str(tmp_path)).model == "Xe[2Jon"


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        pytest.param(
            {
                "proc/self/cgroup": "0::/\n",
                "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
                "sys/fs/cgroup/memory.events": "low 0\noom 3\noom_kill 2\noom_group_kill 0\n",
            },
            2,
            id="cgroup-v2",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "5:memory:/a\n",
                "proc/self/mountinfo": "33 23 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
                "sys/fs/cgroup/memory/a/memory.oom_control": "under_oom 0\noom_kill 1\n",
            },
            1,
            id="cgroup-v1",
        ),
        pytest.param({}, 0, id="nothing-there"),
    ],
)
def test_kills_for_want_of_memory_are_counted(tmp_path: Path, files: dict[str, str], kills: int) -> None:
    write(tmp_path, files)
    assert count_oom_kills(str(tmp_path)) == kills


def test_this_machine_is_the_affinity_mask_of_this_process() -> None:
    """Live, the granted set follows sched_setaffinity, as under `xeontrain run` with a share of the CPUs."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert read_machine().numbers == (min(before),)
    finally:
        os.sched_setaffinity(0, before)
    assert set(read_machine().numbers) == before


def test_the_mask_format_has_words_of_eight_digits() -> None:
    """The helper writes what the kernel writes, or the tests above would prove nothing."""
    assert mask([0, 33]) == "00000002,00000001"
