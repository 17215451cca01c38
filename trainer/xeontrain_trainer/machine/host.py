"""Look-ups that need this very host: the interface of an address, libraries that may be preloaded."""

from __future__ import annotations

import array
import fcntl
import ipaddress
import os
import socket
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

TCMALLOC_NAMES = (
    "libtcmalloc_minimal.so.4",
    "libtcmalloc.so.4",
    "libtcmalloc_minimal.so",
    "libtcmalloc.so",
)
INTEL_OPENMP_NAMES = ("libiomp5.so",)

SIOCGIFCONF = 0x8912
IFREQ_BYTES = 40
MAX_ADDRESSES = 256


def interface_names() -> tuple[str, ...]:
    """Names of all network interfaces, loopback included."""
    return tuple(sorted(name for _, name in socket.if_nameindex()))


def find_interface(address: str) -> Optional[str]:
    """Name of the network interface that carries this IPv4 or IPv6 address; None where none does."""
    try:
        wanted = ipaddress.ip_address(address)
    except ValueError:
        return None
    entries = _ipv4_addresses() if wanted.version == 4 else _ipv6_addresses()
    for name, found in entries:
        # The whole of 127.0.0.0/8 answers on the loopback interface, which lists 127.0.0.1 alone.
        if found == wanted or (wanted.is_loopback and found.is_loopback):
            return name
    return None


def _ipv4_addresses() -> Iterator[tuple[str, ipaddress.IPv4Address]]:
    """(interface, address), secondary addresses included (netdevice(7), SIOCGIFCONF)."""
    buffer = array.array("B", bytes(IFREQ_BYTES * MAX_ADDRESSES))
    request = struct.pack("iL", len(buffer), buffer.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        filled = struct.unpack("iL", fcntl.ioctl(probe.fileno(), SIOCGIFCONF, request))[0]
    raw = buffer.tobytes()
    for start in range(0, filled, IFREQ_BYTES):
        label = raw[start : start + 16].split(b"\0", 1)[0].decode(errors="replace")
        yield label.split(":", 1)[0], ipaddress.IPv4Address(raw[start + 20 : start + 24])


def _ipv6_addresses() -> Iterator[tuple[str, ipaddress.IPv6Address]]:
    """(interface, address) of `/proc/net/if_inet6`; nothing where IPv6 is off."""
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        words = line.split()
        yield words[-1], ipaddress.IPv6Address(int(words[0], 16))


def find_library(names: Sequence[str], *, environ: Mapping[str, str], root: str = "/") -> Optional[str]:
    """Absolute path of the first of `names` in the usual library folders; None where none is there.

    Folders: of the active environment (conda, virtualenv, this Python), then the system's, Debian's multiarch
    ones included.
    """
    for name in names:
        for folder in _library_folders(environ):
            path = os.path.join(root, folder.lstrip("/"), name)
            if os.path.isfile(path):
                return os.path.abspath(path)
    return None


def split_preload(text: str) -> list[str]:
    """The libraries of LD_PRELOAD: spaces and colons stand between them (ld.so(8))."""
    return text.replace(":", " ").split()


def missing_preloads(environ: Mapping[str, str], *, root: str = "/") -> tuple[str, ...]:
    """What LD_PRELOAD names and the dynamic linker will not find; it goes on without, and says so in every
    process. Names with tokens such as $LIB are taken to be there."""
    return tuple(
        name
        for name in split_preload(environ.get("LD_PRELOAD", ""))
        if "$" not in name and not _is_found(name, environ=environ, root=root)
    )


def _is_found(name: str, *, environ: Mapping[str, str], root: str) -> bool:
    if "/" in name:
        return os.path.isfile(os.path.join(root, name.lstrip("/")) if name.startswith("/") else name)
    folders = (*environ.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":"), *_library_folders({}))
    if any(os.path.isfile(os.path.join(root, folder.lstrip("/"), name)) for folder in folders if folder):
        return True
    try:
        with open(os.path.join(root, "etc/ld.so.cache"), "rb") as file:
            return b"\0" + name.encode() + b"\0" in file.read()
    except OSError:
        return False


def _library_folders(environ: Mapping[str, str]) -> tuple[str, ...]:
    prefixes = (environ.get("CONDA_PREFIX", ""), environ.get("VIRTUAL_ENV", ""), sys.prefix)
    return (
        *(os.path.join(prefix, "lib") for prefix in prefixes if prefix),
        "/usr/local/lib",
        "/usr/local/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/lib/x86_64-linux-gnu",
        "/lib64",
    )
