"""Two pinned nodes never share a CPU, and each kubelet reserves exactly what it does not give out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import cpus


@pytest.mark.parametrize(
    ("online", "siblings", "exclusive"),
    [
        pytest.param([0, 1], {}, ([1], [0]), id="two CPUs"),
        pytest.param([0, 1, 2], {}, ([1, 2], [0]), id="three CPUs"),
        pytest.param(
            [0, 1, 2, 3], {0: 0, 2: 0, 1: 1, 3: 1}, ([1, 3], [0, 2]), id="threads of a core stay together"
        ),
        pytest.param(list(range(8)), {}, ([5, 6, 7], [2, 3, 4]), id="two CPUs spared on a larger machine"),
        pytest.param([3, 9], {}, ([9], [3]), id="CPUs with gaps"),
    ],
)
def test_pools_are_disjoint_and_complete(
    online: list[int], siblings: dict[int, int], exclusive: tuple[list[int], list[int]]
) -> None:
    pools = cpus.split(online, siblings=siblings)
    assert tuple(list(pool.exclusive) for pool in pools) == exclusive
    for pool in pools:
        assert sorted([*pool.exclusive, *pool.reserved]) == online


def test_one_cpu_is_refused() -> None:
    with pytest.raises(ValueError, match="at least two CPUs"):
        cpus.split([0], siblings={})


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        pytest.param("0-3,8\n", [0, 1, 2, 3, 8], id="range and single"),
        pytest.param("5", [5], id="single"),
        pytest.param("\n", [], id="empty"),
    ],
)
def test_kernel_lists_are_read(text: str, parsed: list[int]) -> None:
    assert cpus.parse(text) == parsed


def test_rendered_cpus_read_back() -> None:
    assert cpus.parse(cpus.render((0, 2, 5))) == [0, 2, 5]


def test_the_machine_is_read_from_sysfs(tmp_path: Path) -> None:
    """Siblings where the kernel tells them, the CPU itself where it does not."""
    (tmp_path / "online").write_text("0-2\n")
    for cpu, siblings in ((0, "0,2"), (2, "0,2")):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(siblings)
    assert cpus.machine(tmp_path) == ([0, 1, 2], {0: 0, 1: 1, 2: 0})
