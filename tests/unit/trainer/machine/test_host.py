"""Interfaces are found by address, libraries where distributions really put them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from xeontrain_trainer.machine import (
    TCMALLOC_NAMES,
    find_interface,
    find_library,
    interface_names,
    missing_preloads,
)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.10"])
def test_loopback_is_lo(address: str) -> None:
    assert find_interface(address) == "lo"


def test_the_interface_of_the_default_route() -> None:
    """The address that this machine would speak from belongs to one of its interfaces, and not to lo."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            pytest.skip("this machine has no route out")
        address = probe.getsockname()[0]
    assert find_interface(address) in {name for _, name in socket.if_nameindex()} - {"lo"}


@pytest.mark.parametrize("address", ["203.0.113.7", "2001:db8::1", "", "mail-filter-0", "10.0.0"])
def test_no_such_address(address: str) -> None:
    assert find_interface(address) is None


@pytest.mark.parametrize(
    ("present", "found"),
    [
        pytest.param(["usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"], 0, id="debian"),
        pytest.param(["usr/lib64/libtcmalloc.so.4"], 0, id="red-hat"),
        pytest.param(["opt/conda/lib/libtcmalloc.so", "usr/lib/libtcmalloc.so"], 0, id="environment-first"),
        pytest.param(["usr/lib/libtcmalloc.so", "usr/lib/libtcmalloc_minimal.so.4"], 1, id="smaller-first"),
        pytest.param(["usr/lib/libjemalloc.so.2"], None, id="another-allocator"),
        pytest.param([], None, id="none"),
    ],
)
def test_library(tmp_path: Path, present: list[str], found: int | None) -> None:
    for name in present:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    path = find_library(TCMALLOC_NAMES, environ={"CONDA_PREFIX": "/opt/conda"}, root=str(tmp_path))
    assert path == (None if found is None else str(tmp_path / present[found]))


def test_interfaces_of_this_machine() -> None:
    assert "lo" in interface_names()


@pytest.mark.parametrize(
    ("preload", "missing"),
    [
        pytest.param("", (), id="unset"),
        pytest.param("/opt/a.so", (), id="there"),
        pytest.param("/opt/a.so:/opt/b.so", ("/opt/b.so",), id="one-of-two"),
        pytest.param("/opt/a.so /opt/b.so", ("/opt/b.so",), id="spaces-part-as-colons-do"),
        pytest.param("/opt", ("/opt",), id="a-folder"),
        pytest.param("libc.so.9", (), id="in-the-linkers-cache"),
        pytest.param("libown.so", (), id="in-the-library-path"),
        pytest.param("libd.so", ("libd.so",), id="a-name-found-nowhere"),
        pytest.param("/usr/$LIB/x.so", (), id="a-token-is-the-linkers-affair"),
    ],
)
def test_what_of_a_preload_is_not_there(tmp_path: Path, preload: str, missing: tuple[str, ...]) -> None:
    for name, content in {
        "opt/a.so": b"",
        "own/libown.so": b"",
        "etc/ld.so.cache": b"x\0libc.so.9\0y",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    environ = {"LD_PRELOAD": preload, "LD_LIBRARY_PATH": "/own"}
    assert missing_preloads(environ, root=str(tmp_path)) == missing
