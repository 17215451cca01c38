"""How a member finds the coordinator: names are resolved anew, addresses are tried, connections are kept for
a while."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from xeontrain_trainer.gang import messages as m
from xeontrain_trainer.gang.identity import Identity
from xeontrain_trainer.gang.messages import Answer, Report, read_report
from xeontrain_trainer.launcher import client
from xeontrain_trainer.launcher.client import HttpTransport, Unreachable
from xeontrain_trainer.launcher.http import JSON, HttpServer, Request, Response

from tests.unit.trainer.launcher.loopback import free_port

ME = Identity("pod-1", 1, 1.0)
REPORT = Report("job", 1, ME, 1, m.WAITING, 1, 0)


class FakeCoordinator:
    """Answers `kind` to every report, or `raw` where set; counts connections by their reports' order."""

    def __init__(self, *, address: str, port: int) -> None:
        self.address = address
        self.kind = m.WAIT
        self.raw: Response | None = None
        self.reports = 0
        self.hold = asyncio.Event()
        self.hold.set()
        self.port = port
        self.server = HttpServer(self.handle, on_error=lambda error: None)

    async def handle(self, request: Request) -> Response:
        """One report."""
        self.reports += 1
        await self.hold.wait()
        report = read_report(request.body)
        identity = Identity(self.address, 1, 1.0)
        answer = Answer(self.kind, report.job_uid, identity, report.identity, report.sequence)
        return self.raw or Response(200, answer.to_bytes(), JSON)

    async def start(self) -> None:
        """Listens."""
        await self.server.start(host=self.address, port=self.port)


class Names:
    """A name service: what `worker-0.` stands for, and how often it was asked."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.asked = 0

    async def look_up(self, host: str, port: int, **_options: Any) -> list[Any]:
        """As `loop.getaddrinfo`."""
        self.asked += 1
        if not self.addresses:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in self.addresses]


@pytest.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """The name service in place of the system's."""
    found = Names()
    loop = asyncio.get_running_loop()
    original = loop.getaddrinfo

    async def look_up(host: Any, port: Any, **options: Any) -> Any:
        if host == "worker-0.":
            return await found.look_up(host, port, **options)
        return await original(host, port, **options)

    monkeypatch.setattr(loop, "getaddrinfo", look_up)
    return found


@pytest.fixture
async def pair(names: Names) -> AsyncIterator[tuple[FakeCoordinator, FakeCoordinator]]:
    """Two pods of worker 0 on one port of two addresses."""
    port = free_port()
    old, new = (
        FakeCoordinator(address="127.0.0.1", port=port),
        FakeCoordinator(address="127.0.0.2", port=port),
    )
    names.addresses = [old.address]
    await old.start()
    await new.start()
    yield old, new
    await old.server.close()
    await new.server.close()


async def test_a_connection_is_kept_and_opened_anew_in_time(
    pair: tuple[FakeCoordinator, FakeCoordinator], names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is asked for each new connection, not for each report."""
    old, new = pair
    transport = HttpTransport(host="worker-0.", port=old.port, hold_seconds=1)
    for _ in range(3):
        assert (await transport.exchange(REPORT)).coordinator.pod_uid == old.address
    assert (names.asked, old.reports) == (1, 3)
    names.addresses = [new.address]
    monkeypatch.setattr(client, "RECONNECT_SECONDS", 0.0)
    assert (await transport.exchange(REPORT)).coordinator.pod_uid == new.address
    transport.close()


async def test_sent_elsewhere_it_asks_for_the_name_again(
    pair: tuple[FakeCoordinator, FakeCoordinator], names: Names
) -> None:
    """An old coordinator does not keep its members."""
    old, new = pair
    old.kind = m.ELSEWHERE
    transport = HttpTransport(host="worker-0.", port=old.port, hold_seconds=1)
    assert (await transport.exchange(REPORT)).kind == m.ELSEWHERE
    names.addresses = [new.address]
    assert (await transport.exchange(REPORT)).coordinator.pod_uid == new.address
    transport.close()


async def test_without_a_name_service_the_last_address_that_answered_is_tried(
    pair: tuple[FakeCoordinator, FakeCoordinator], names: Names
) -> None:
    """Cluster DNS may be away; worker 0 is not."""
    old, _new = pair
    transport = HttpTransport(host="worker-0.", port=old.port, hold_seconds=1)
    await transport.exchange(REPORT)
    transport.close()
    names.addresses = []
    assert (await transport.exchange(REPORT)).coordinator.pod_uid == old.address
    transport.close()


async def test_every_address_of_the_name_is_tried(
    pair: tuple[FakeCoordinator, FakeCoordinator], names: Names
) -> None:
    """One of them may belong to a pod that is gone."""
    old, new = pair
    await old.server.close()
    names.addresses = ["127.0.0.3", old.address, new.address]
    for _ in range(5):
        transport = HttpTransport(host="worker-0.", port=old.port, hold_seconds=1)
        assert (await transport.exchange(REPORT)).coordinator.pod_uid == new.address
        transport.close()


async def test_a_connection_that_was_closed_meanwhile_is_opened_again(
    pair: tuple[FakeCoordinator, FakeCoordinator],
) -> None:
    """A restarted worker 0 costs no report."""
    old, _new = pair
    transport = HttpTransport(host="worker-0.", port=old.port, hold_seconds=1)
    await transport.exchange(REPORT)
    await old.server.close()
    old.server = HttpServer(old.handle, on_error=lambda error: None)
    await old.start()
    assert (await transport.exchange(REPORT)).kind == m.WAIT
    transport.close()


@pytest.mark.parametrize(
    ("response", "says", "reason"),
    [
        pytest.param(
            Response(409, b"this is job other\n"),
            "status 409: this is job other",
            "NotTheGang",
            id="another-job",
        ),
        pytest.param(Response(200, b"<html>"), "not JSON", "NotTheGang", id="not-json"),
        pytest.param(Response(200, b"{}"), "contract", "NotTheGang", id="not-an-answer"),
        pytest.param(Response(200, b"x" * 20000), "not the gang's protocol", "NotTheGang", id="too-long"),
        pytest.param(
            Response(503, b"no disk\n"), "worker 0 is not ready: no disk", "Refused", id="not-ready"
        ),
    ],
)
async def test_nonsense_is_unreachable(
    pair: tuple[FakeCoordinator, FakeCoordinator], response: Response, says: str, reason: str
) -> None:
    """Whatever answers there is not the coordinator; the text says what it said."""
    pair[0].raw = response
    transport = HttpTransport(host="worker-0.", port=pair[0].port, hold_seconds=1)
    with pytest.raises(Unreachable, match=says) as raised:
        await transport.exchange(REPORT)
    assert raised.value.reason == reason


async def test_no_name_no_server_no_answer(
    pair: tuple[FakeCoordinator, FakeCoordinator], names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has its own sentence, and its own reason."""
    old, _new = pair
    monkeypatch.setattr(client, "GRACE_SECONDS", 0.1)

    async def failure(hold_seconds: float = 1) -> tuple[str, str]:
        with pytest.raises(Unreachable) as raised:
            await HttpTransport(host="worker-0.", port=old.port, hold_seconds=hold_seconds).exchange(REPORT)
        return raised.value.reason, str(raised.value)

    names.addresses = []
    assert await failure() == (
        "NameNotFound",
        "the name worker-0. is not known: Name or service not known",
    )
    names.addresses = ["127.0.0.3"]
    assert await failure() == ("Refused", f"127.0.0.3 port {old.port}: Connection refused")
    names.addresses = [old.address]
    old.hold.clear()
    assert await failure(0.1) == ("TimedOut", f"{old.address} port {old.port}: no answer in time")
    old.hold.set()


async def test_a_host_that_does_not_answer_at_all(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    """A firewall that drops packets: the connection is given up, and the address is named."""

    async def for_ever(*_arguments: object, **_options: object) -> None:
        await asyncio.sleep(600)

    names.addresses = ["127.0.0.3"]
    monkeypatch.setattr(asyncio, "open_connection", for_ever)
    monkeypatch.setattr(client, "CONNECT_SECONDS", 0.05)
    with pytest.raises(Unreachable, match=r"127\.0\.0\.3 port 29400: no answer in time") as raised:
        await HttpTransport(host="worker-0.", port=29400, hold_seconds=1).exchange(REPORT)
    assert raised.value.reason == "TimedOut"


async def test_a_cancelled_report_takes_its_connection_along(
    pair: tuple[FakeCoordinator, FakeCoordinator],
) -> None:
    """Or the next report would read the answer to this one."""
    old, _new = pair
    transport = HttpTransport(host="worker-0.", port=old.port, hold_seconds=5)
    old.hold.clear()
    held = asyncio.ensure_future(transport.exchange(REPORT))
    while not old.reports:
        await asyncio.sleep(0.01)
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held
    old.hold.set()
    later = Report("job", 1, ME, 2, m.WAITING, 1, 0)
    assert (await transport.exchange(later)).sequence == 2
    transport.close()
