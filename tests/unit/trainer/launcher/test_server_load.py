"""Slow, silent, many and hostile clients: bounded in number, time and memory, and no harm to the gang."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from xeontrain_trainer.launcher import http
from xeontrain_trainer.launcher.http import HttpServer, Request, Response, most_connections

from tests.unit.trainer.launcher.loopback import Gang, Pod, free_port

PAGE = b"GET /page HTTP/1.1\r\n\r\n"
HOLD = b"GET /hold HTTP/1.1\r\n\r\n"
LARGE = b"GET /large HTTP/1.1\r\n\r\n"
MOST = 4


class Client:
    """A raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, request: bytes = PAGE) -> bytes:
        """The answer's first line; empty where the connection was closed instead."""
        try:
            self.writer.write(request)
            head = await self.reader.readuntil(b"\r\n\r\n")
            await self.reader.readexactly(int(head.lower().split(b"content-length:")[1].split()[0]))
        except (OSError, asyncio.IncompleteReadError):
            return b""
        return head.split(b"\r\n")[0]

    async def closed(self) -> bool:
        """Waits for the server's end of the connection."""
        with contextlib.suppress(OSError):
            while await self.reader.read(65536):
                pass
        return True


class Door:
    """A server with room for MOST; `/hold` is answered once `release` is set."""

    def __init__(self) -> None:
        self.port = free_port()
        self.release = asyncio.Event()
        self.held = 0
        self.server = HttpServer(self.handle, on_error=lambda error: None, most=MOST)
        self._clients: list[Client] = []

    async def handle(self, request: Request) -> Response:
        if request.path == "/hold":
            self.held += 1
            await self.release.wait()
        return Response(200, b"x" * (8 << 20) if request.path == "/large" else b"ok")

    async def client(self) -> Client:
        """A new connection."""
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self._clients.append(client)
        return client

    async def clients(self, number: int) -> list[Client]:
        """So many, one after the other; each is there before the next."""
        found = []
        for _ in range(number):
            found.append(await self.client())
            await asyncio.sleep(0.01)
        return found

    async def close(self) -> None:
        """Ends all."""
        await self.server.close()
        for client in self._clients:
            client.writer.close()


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    """The server, with nobody in it."""
    found = Door()
    await found.server.start(host="127.0.0.1", port=found.port)
    yield found
    await found.close()


async def test_a_newcomer_takes_the_place_of_the_longest_idle(door: Door) -> None:
    """The others stay, also across several newcomers."""
    clients = await door.clients(MOST)
    for client in clients:
        assert await client.ask() == b"HTTP/1.1 200 OK"
    assert await clients[0].ask() == b"HTTP/1.1 200 OK"
    assert await (await door.client()).ask() == b"HTTP/1.1 200 OK"
    assert await clients[1].closed()
    for client in (clients[0], clients[2], clients[3]):
        assert await client.ask() == b"HTTP/1.1 200 OK"


async def test_who_says_nothing_costs_nobody_a_place(door: Door) -> None:
    """A member that has reported stays, however many strangers come after it and stay silent."""
    member = await door.client()
    assert await member.ask() == b"HTTP/1.1 200 OK"
    for half in (b"", b"GET /pa", b"POST /gang HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"):
        for stranger in await door.clients(3 * MOST):
            stranger.writer.write(half)
    assert await member.ask() == b"HTTP/1.1 200 OK"
    assert await (await door.client()).ask() == b"HTTP/1.1 200 OK"


async def test_a_client_that_takes_no_answer_makes_room(door: Door) -> None:
    """Before one that only idles."""
    member = await door.client()
    assert await member.ask() == b"HTTP/1.1 200 OK"
    for slow in await door.clients(MOST - 1):
        slow.writer.write(LARGE)
    await asyncio.sleep(0.1)
    assert await (await door.client()).ask() == b"HTTP/1.1 200 OK"
    assert await member.ask() == b"HTTP/1.1 200 OK"


async def test_only_a_port_full_of_held_answers_refuses(door: Door) -> None:
    """Those are the gang's own: none of them is cut for a newcomer."""
    members = await door.clients(MOST)
    answers = [asyncio.ensure_future(member.ask(HOLD)) for member in members]
    while door.held < MOST:
        await asyncio.sleep(0.01)
    assert await (await door.client()).ask() == b""
    door.release.set()
    assert await asyncio.gather(*answers) == [b"HTTP/1.1 200 OK"] * MOST
    assert await (await door.client()).ask() == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize(
    ("limit", "sent"),
    [
        ("IDLE_SECONDS", b""),
        ("HEAD_SECONDS", b"GET /page HTTP/1.1\r\nX: "),
        ("BODY_SECONDS", b"POST /page HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"),
        ("WRITE_SECONDS", LARGE),
    ],
    ids=["half-open", "slow-header", "slow-body", "slow-reader"],
)
async def test_every_wait_has_an_end(
    door: Door, monkeypatch: pytest.MonkeyPatch, limit: str, sent: bytes
) -> None:
    """However slowly a client goes on, a byte now and then included."""
    monkeypatch.setattr(http, limit, 0.2)
    client = await door.client()
    client.writer.write(sent)
    trickle = asyncio.ensure_future(_trickle(client)) if limit in ("HEAD_SECONDS", "BODY_SECONDS") else None
    await asyncio.sleep(0.3)
    assert await client.closed()
    if trickle is not None:
        await trickle


async def _trickle(client: Client) -> None:
    for _ in range(7):
        client.writer.write(b"x")
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("files", "most"),
    [(1024, 512), (1 << 20, 2048), (resource.RLIM_INFINITY, 2048)],
    ids=["few-files", "many-files", "no-limit"],
)
def test_half_of_the_files_may_be_connections(monkeypatch: pytest.MonkeyPatch, files: int, most: int) -> None:
    """The other half is for ranks, logs and the launcher's own connections."""
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (files, files))
    assert most_connections() == most


# Against a real launcher.

FILES = 160
FLOOD = 400
JOB = b'"jobUid":"another-job"'


def few_files(_pod: Pod) -> Sequence[str]:
    """A container whose limit of open files is far below what comes."""
    return ["sh", "-c", f'ulimit -n {FILES}; exec "$@"', "sh"]


@contextlib.contextmanager
def crowd(port: int, sent: bytes) -> Iterator[None]:
    """FLOOD connections that send this and then nothing more, and take no answer."""
    with contextlib.ExitStack() as stack:
        for _ in range(FLOOD):
            connection = stack.enter_context(socket.socket())
            connection.settimeout(10)
            with contextlib.suppress(OSError):
                connection.connect(("127.0.0.1", port))
                connection.sendall(sent)
        yield


@pytest.mark.timeout(900)
def test_a_gang_trains_on_while_its_port_is_flooded(tmp_path: Path) -> None:
    """Silent, slow, endless and strange clients, more of them than the launcher may open files: the round
    goes on, the operator is answered, and the launcher's memory stays bounded."""
    script = 'while [ ! -e "$0/go" ]; do sleep 0.1; done'
    endless = b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000
    strange = b"POST /gang HTTP/1.1\r\nContent-Length: %d\r\n\r\n{%s}" % (len(JOB) + 2, JOB)
    with Gang(tmp_path, workers=3, command=["sh", "-c", script, str(tmp_path)], wrapper=few_files) as gang:
        zero = gang.pods[0]
        zero.wait_for("round 1 runs", _all_running)
        assert zero.process is not None
        launcher = psutil.Process(zero.process.pid)
        before = launcher.memory_info().rss
        for sent in (
            b"",
            b"GET /lo",
            endless,
            strange,
            b"GET /log HTTP/1.1\r\n\r\n" * 50,
            b"\x16\x03" * 5000,
        ):
            with crowd(zero.port, sent):
                status = zero.wait_for("an answer", lambda s: s)
                assert (status["round"], status["missing"], status["failures"]) == (1, [], [])
                assert launcher.num_fds() <= FILES
        assert launcher.memory_info().rss - before < 48 << 20
        (tmp_path / "go").touch()
        assert zero.exit_code() == 0
        document = zero.document()
        assert (document["outcome"], document["round"], document["failures"]) == ("Succeeded", 1, 0)
        assert "Traceback" not in zero.said()


def _all_running(status: dict[str, Any]) -> bool:
    return [member["state"] for member in status["members"]] == ["Running"] * 3
