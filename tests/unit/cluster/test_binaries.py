"""A program is taken from where it fits, and never one whose version would not work with the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import binaries
from tests.cluster.binaries import Component

BY_NAME = {component.name: component for component in binaries.components("1.37.2")}


def fake_program(folder: Path, name: str, *, says: str) -> Path:
    """Writes a program that prints a version, whatever it is asked."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("component", "version", "fits"),
    [
        pytest.param("kubernetes", (1, 37, 0), True, id="kubernetes, same minor"),
        pytest.param("kubernetes", (1, 36, 2), False, id="kubernetes, minor behind"),
        pytest.param("etcd", (3, 5, 9), True, id="etcd, same major"),
        pytest.param("helm", (3, 22, 0), False, id="helm, major behind"),
    ],
)
def test_only_fitting_versions_are_taken(component: str, version: tuple[int, ...], fits: bool) -> None:
    assert BY_NAME[component].fits(version) is fits


@pytest.mark.parametrize(
    ("program", "says", "version"),
    [
        pytest.param("kube-apiserver", "Kubernetes v1.37.2", (1, 37, 2), id="kubernetes"),
        pytest.param("kubectl", "Client Version: v1.32.4-dispatcher", (1, 32, 4), id="kubectl"),
        pytest.param("etcd", "etcd Version: 3.6.16\nGit SHA: 1a2b3c", (3, 6, 16), id="etcd"),
        pytest.param(
            "helm", 'version.BuildInfo{Version:"v4.3", GoVersion:"go1"}', None, id="no full version"
        ),
    ],
)
def test_version_is_read_from_what_a_program_says(
    tmp_path: Path, program: str, says: str, version: tuple[int, ...] | None
) -> None:
    assert binaries.program_version(fake_program(tmp_path, program, says=says)) == version


def test_assets_come_before_path_and_path_before_the_cache(tmp_path: Path) -> None:
    """The order of the three places, each taken away in turn."""
    component = BY_NAME["kubernetes"]
    env = {
        "KUBEBUILDER_ASSETS": str(tmp_path / "assets"),
        "PATH": f"{tmp_path / 'path'}",
        "XEONTRAIN_CACHE": str(tmp_path / "cache"),
    }
    places = [
        fake_program(tmp_path / "assets", "kubelet", says="Kubernetes v1.37.1"),
        fake_program(tmp_path / "path", "kubelet", says="Kubernetes v1.37.9"),
        fake_program(component.folder(tmp_path / "cache"), "kubelet", says="Kubernetes v1.37.2"),
    ]
    for place in places:
        assert binaries.find("kubelet", component=component, env=env) == place
        place.unlink()
    assert binaries.find("kubelet", component=component, env=env) is None


def test_a_program_of_another_minor_on_path_is_passed_over(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path), "XEONTRAIN_CACHE": str(tmp_path / "cache")}
    fake_program(tmp_path, "kubectl", says="Client Version: v1.32.4")
    assert binaries.find("kubectl", component=BY_NAME["kubernetes"], env=env) is None


def test_every_program_has_one_component() -> None:
    """What the tiers ask for can be built, and by one recipe only."""
    programs = [program for component in BY_NAME.values() for program in component.programs]
    assert sorted(programs) == sorted(set(binaries.ALL_PROGRAMS))


def test_the_kubernetes_version_is_one_variable() -> None:
    kubernetes: Component = {c.name: c for c in binaries.components("1.34.4")}["kubernetes"]
    assert kubernetes.folder(Path("/cache")) == Path("/cache/bin/kubernetes-v1.34.4")
