"""A node's cgroups are made ready for processes on both versions and vanish with the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import cgroups
from tests.cluster.errors import RequirementMissing


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    """A machine with cgroup v1: one folder a hierarchy, the root's cpuset filled in."""
    for name in ("cpu", "cpuset", "memory"):
        (tmp_path / name).mkdir()
    (tmp_path / "cpuset" / "cpuset.cpus").write_text("0-1\n")
    (tmp_path / "cpuset" / "cpuset.mems").write_text("0\n")
    return tmp_path


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    """A machine with cgroup v2 that offers two of the controllers."""
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu\n")
    (tmp_path / "cgroup.subtree_control").write_text("")
    (tmp_path / "xt-1").mkdir()
    (tmp_path / "xt-1" / "cgroup.controllers").write_text("cpu\n")
    (tmp_path / "xt-1" / "cgroup.subtree_control").write_text("")
    return tmp_path


def test_on_v1_a_new_cpuset_is_filled_in(v1: Path) -> None:
    assert cgroups.make("xt-1", node="node-a", root=v1) == "/xt-1/node-a"
    assert (v1 / "memory" / "xt-1" / "node-a").is_dir()
    assert (v1 / "cpuset" / "xt-1" / "node-a" / "cpuset.cpus").read_text() == "0-1\n"
    assert (v1 / "cpuset" / "xt-1" / "node-a" / "cpuset.mems").read_text() == "0\n"


def test_on_v2_offered_controllers_are_handed_down(v2: Path) -> None:
    assert cgroups.make("xt-1", node="node-a", root=v2) == "/xt-1/node-a"
    assert (v2 / "xt-1" / "node-a").is_dir()
    # A real kernel adds to the file's content; here the last write stays.
    assert (v2 / "cgroup.subtree_control").read_text() == "+cpu"
    assert (v2 / "xt-1" / "cgroup.subtree_control").read_text() == "+cpu"


def test_a_controller_that_is_given_already_is_not_given_again(v2: Path) -> None:
    """A write to the root of a machine whose systemd did it may be refused."""
    (v2 / "cgroup.subtree_control").write_text("cpuset cpu memory\n")
    cgroups.make("xt-1", node="node-a", root=v2)
    assert (v2 / "cgroup.subtree_control").read_text() == "cpuset cpu memory\n"


def test_where_none_can_be_made_the_reason_is_told(tmp_path: Path) -> None:
    """A hierarchy without the files of one, as a read-only or masked one looks."""
    (tmp_path / "cpuset").mkdir()
    with pytest.raises(RequirementMissing, match="cgroups cannot be made here"):
        cgroups.require(tmp_path)


def test_a_probe_leaves_nothing(v1: Path) -> None:
    for hierarchy in ("cpu", "memory"):
        before = sorted((v1 / hierarchy).iterdir())
        cgroups.require(v1)
        assert sorted((v1 / hierarchy).iterdir()) == before


def test_only_this_runs_empty_cgroups_are_removed(tmp_path: Path) -> None:
    (tmp_path / "memory" / "xt-1" / "node-a").mkdir(parents=True)
    (tmp_path / "memory" / "xt-2").mkdir(parents=True)
    cgroups.remove("xt-1", root=tmp_path)
    assert sorted(path.name for path in (tmp_path / "memory").iterdir()) == ["xt-2"]
