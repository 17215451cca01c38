"""The launcher's port: what it answers, and that nothing sent to it does harm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from xeontrain_trainer.gang import messages as m
from xeontrain_trainer.gang.identity import Identity
from xeontrain_trainer.gang.messages import Answer, Report, read_answer
from xeontrain_trainer.launcher.http import MAX_BODY_BYTES, MAX_HEAD_BYTES, HttpServer
from xeontrain_trainer.launcher.server import bind_host, make_handler

from tests.unit.trainer.launcher.loopback import free_port

ME = Identity("pod-1", 1, 1.0)
REPORT = Report("job", 1, ME, 1, m.WAITING, 1, 0)


class Pages:
    """Fixed pages, one of them broken on demand."""

    reason: str | None = None
    broken = False

    def ready(self) -> str | None:
        return self.reason

    def status(self) -> dict[str, Any]:
        if self.broken:
            raise RuntimeError("a bug")
        return {"state": "Waiting"}

    def log(self, max_bytes: int) -> bytes:
        return b"last line\n"[-max_bytes:]

    def metrics(self) -> str:
        return "xeontrain_launcher_round 1\n"


class Port:
    """A running server and raw access to it."""

    def __init__(self, pages: Pages, port: int) -> None:
        self.pages = pages
        self.port = port
        self.bugs: list[BaseException] = []

    async def send(self, data: bytes) -> bytes:
        """All that comes back until the server closes; the connection is half closed after sending."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        writer.write_eof()
        try:
            return await reader.read()
        finally:
            writer.close()

    async def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of a page."""
        return parse(await self.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()))

    async def post(self, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to a report."""
        head = f"POST /gang HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        return parse(await self.send(head + body))


def parse(raw: bytes) -> tuple[int, bytes]:
    """Status and body."""
    head, _, body = raw.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body


async def echo(report: Report) -> Answer:
    """Says to everybody that there is nothing to do."""
    return Answer(m.WAIT, report.job_uid, Identity("pod-0", 1, 1.0), report.identity, report.sequence)


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    """A server of worker 0."""
    found = Port(Pages(), free_port())
    handler = make_handler(found.pages, job_uid="job", exchange=echo)
    server = HttpServer(handler, on_error=found.bugs.append)
    await server.start(host="127.0.0.1", port=found.port)
    yield found
    await server.close()


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/healthz", 200, b"ok\n"),
        ("/readyz", 200, b"ok\n"),
        ("/status", 200, b'{"state":"Waiting"}'),
        ("/log", 200, b"last line\n"),
        ("/log?rank=1", 200, b"last line\n"),
        ("/metrics", 200, b"xeontrain_launcher_round 1\n"),
    ],
)
async def test_pages(port: Port, path: str, status: int, body: bytes) -> None:
    """Each page as the contract has it."""
    assert await port.get(path) == (status, body)


async def test_not_ready_says_why(port: Port) -> None:
    """503 with a sentence."""
    port.pages.reason = "worker 0 has not answered yet"
    assert await port.get("/readyz") == (503, b"worker 0 has not answered yet\n")


async def test_a_report_is_answered(port: Port) -> None:
    """The answer is for its sender."""
    status, body = await port.post(REPORT.to_bytes())
    assert status == 200
    assert read_answer(body).to == ME


async def test_one_connection_serves_many_requests(port: Port) -> None:
    """Keep-alive, in order."""
    one = b"GET /healthz HTTP/1.1\r\n\r\n"
    raw = await port.send(one + one + b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n" + one)
    assert raw.count(b"200 OK") == 3


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(b"GET /nowhere HTTP/1.1\r\n\r\n", 404, id="unknown-page"),
        pytest.param(b"DELETE /status HTTP/1.1\r\n\r\n", 405, id="delete"),
        pytest.param(b"GET /gang HTTP/1.1\r\n\r\n", 405, id="get-gang"),
        pytest.param(b"nonsense\r\n\r\n", 400, id="nonsense"),
        pytest.param(b"GET / SPDY/9\r\n\r\n", 400, id="another-protocol"),
        pytest.param(b"\x16\x03\x01\x02\x00\r\n\r\n", 400, id="tls"),
        pytest.param(b"GET / HTTP/1.1\r\n: x\r\n\r\n", 400, id="header-without-name"),
        pytest.param(b"GET / HTTP/1.1\r\nA: " + b"x" * MAX_HEAD_BYTES + b"\r\n\r\n", 431, id="long-header"),
        pytest.param(b"POST /gang HTTP/1.1\r\n\r\n", 411, id="no-length"),
        pytest.param(b"POST /gang HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 411, id="negative-length"),
        pytest.param(
            b"POST /gang HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411, id="chunked"
        ),
        pytest.param(
            f"POST /gang HTTP/1.1\r\nContent-Length: {MAX_BODY_BYTES + 1}\r\n\r\n".encode(),
            413,
            id="too-long",
        ),
        pytest.param(
            b"POST /gang HTTP/1.1\r\nContent-Length: " + b"9" * 4000 + b"\r\n\r\n", 413, id="endless-length"
        ),
        pytest.param(b"POST /gang HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 400, id="no-report"),
        pytest.param(b"POST /gang HTTP/1.1\r\nContent-Length: 2\r\n\r\n\xff\xff", 400, id="not-utf-8"),
    ],
)
async def test_what_is_wrong_is_refused(port: Port, data: bytes, status: int) -> None:
    """With a status that says what, and the server lives on."""
    assert parse(await port.send(data))[0] == status
    assert await port.get("/healthz") == (200, b"ok\n")
    assert port.bugs == []


@pytest.mark.parametrize("data", [b"", b"GET / HT", b"POST /gang HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"])
async def test_half_a_request_is_dropped(port: Port, data: bytes) -> None:
    """Nobody is left to answer."""
    assert await port.send(data) == b""
    assert await port.get("/healthz") == (200, b"ok\n")


async def test_another_jobs_report_is_refused(port: Port) -> None:
    """A job made again under the same name meets its old pods."""
    status, body = await port.post(REPORT.to_bytes().replace(b'"job"', b'"other"'))
    assert status == 409
    assert b"this is job job" in body


async def test_a_bug_in_a_page_is_told_and_contained(port: Port) -> None:
    """500, and the next request is served."""
    port.pages.broken = True
    assert (await port.get("/status"))[0] == 500
    assert [str(bug) for bug in port.bugs] == ["a bug"]
    assert await port.get("/healthz") == (200, b"ok\n")


async def test_only_worker_0_takes_reports() -> None:
    """A name that still leads to an old pod leads nowhere."""
    found = Port(Pages(), free_port())
    server = HttpServer(make_handler(found.pages, job_uid="job", exchange=None), on_error=found.bugs.append)
    await server.start(host="127.0.0.1", port=found.port)
    try:
        assert (await found.post(REPORT.to_bytes()))[0] == 404
    finally:
        await server.close()


async def test_status_is_json(port: Port) -> None:
    """With its media type."""
    raw = await port.send(b"GET /status HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert b"Content-Type: application/json\r\n" in raw
    assert json.loads(parse(raw)[1]) == {"state": "Waiting"}


@pytest.mark.parametrize(
    ("pod_ip", "host"),
    [
        ("10.1.2.3", "0.0.0.0"),
        ("fd00::7", "::"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("a-name", "0.0.0.0"),
    ],
)
def test_where_the_port_is_bound(pod_ip: str, host: str) -> None:
    """All addresses in a pod, the loopback alone on a person's machine: the port has no authentication."""
    assert bind_host(pod_ip) == host
