"""Carries TCP connections from a loopback port of the host to an address inside the namespaces.

A process of its own (`python -m tests.cluster.relay PID ADDRESS PORT`): it binds the port on the host,
prints it, enters the network namespace of PID and connects from there. It ends when its stdin does.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import subprocess
import sys

from tests.cluster.errors import ClusterError

BUFFER_BYTES = 1 << 16
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000


class Relay:
    """A running relay; `port` is the host's loopback port."""

    def __init__(self, *, namespace_pid: int, address: str, port: int) -> None:
        argv = [sys.executable, "-m", "tests.cluster.relay", str(namespace_pid), address, str(port)]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line.isdigit():
            raise ClusterError(f"the relay to {address}:{port} did not start")
        self.port = int(line)

    def stop(self) -> None:
        """Ends the relay and every connection through it."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()


def enter_network(pid: int) -> None:
    """Moves this process into the network namespace of another (and its user namespace, without root)."""
    libc = ctypes.CDLL(None, use_errno=True)
    kinds = [("net", CLONE_NEWNET)] if os.geteuid() == 0 else [("user", CLONE_NEWUSER), ("net", CLONE_NEWNET)]
    descriptors = [(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY), flag) for name, flag in kinds]
    for descriptor, flag in descriptors:
        if libc.setns(descriptor, flag) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace of process {pid}")
        os.close(descriptor)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(BUFFER_BYTES):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        # Half-close: the other direction may still have an answer to carry.
        writer.write_eof()


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, address: str, port: int
) -> None:
    with contextlib.closing(writer):
        try:
            inner_reader, inner_writer = await asyncio.open_connection(address, port)
        except OSError:
            return
        with contextlib.closing(inner_writer):
            await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))


async def _serve(listener: socket.socket, *, address: str, port: int) -> None:
    # A connection whose ends both wait is referred to by nobody else, and would be collected as garbage.
    carried: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(_carry(reader, writer, address=address, port=port))
        carried.add(task)
        task.add_done_callback(carried.discard)

    server = await asyncio.start_server(connected, sock=listener)
    stdin_ended = asyncio.Event()
    # Nobody writes to it: it becomes readable when the other end is closed.
    asyncio.get_running_loop().add_reader(0, stdin_ended.set)
    print(listener.getsockname()[1], flush=True)
    async with server:
        await stdin_ended.wait()


def main(argv: list[str]) -> None:
    """Binds on the host first, enters the namespace second: the listener stays on the host."""
    pid, address, port = int(argv[0]), argv[1], int(argv[2])
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    enter_network(pid)
    asyncio.run(_serve(listener, address=address, port=port))
    # Connections still open would keep the loop's clean-up waiting.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
