"""Asking a launcher: the contract's answer is read, and whatever else may answer there does no harm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from xeontrain_operator.launcher_client import LauncherClient, LauncherError, read_status

MAX_BYTES = 4096

CPU = {
    "model": "Intel(R) Xeon(R) Platinum 8480+",
    "instructionSet": "AMX_BF16",
    "cpus": "0-3,8",
    "ranks": 1,
    "coresPerRank": 4,
    "commCoresPerRank": 1,
    "exclusive": "True",
}
ANSWER: dict[str, Any] = {
    "contract": 1,
    "jobUid": "job",
    "worker": 0,
    "podUid": "pod",
    "state": "Running",
    "round": 2,
    "members": [
        {"worker": 0, "podUid": "pod", "state": "Running", "round": 2, "cpu": CPU, "lastSeenSeconds": 0.5},
        {"worker": 1, "podUid": "p1", "state": "Running", "round": 2, "cpu": None, "lastSeenSeconds": 1},
    ],
    "missing": [],
    "cpu": CPU,
    "progress": {
        "step": 10,
        "totalSteps": 100,
        "epoch": 0.5,
        "loss": 0.25,
        "samplesPerSecond": 12.5,
        "precisionReason": "faster",
        "precisionEmulated": False,
        "ipexUsed": False,
        "ipexReason": "slower",
        "backendReason": "none",
        "fp32SamplesPerSecond": 1.5,
        "bf16SamplesPerSecond": 2.5,
        "workerSamplesPerSecond": [1.0],
    },
    "failures": [{"id": "pod/1", "round": 1, "worker": 1, "rank": 1, "exitCode": 1, "reason": "RankFailed"}],
    "failuresCounted": 1,
    "verdict": None,
}


def _read(**changes: Any) -> dict[str, Any]:
    return read_status(json.dumps({**ANSWER, **changes}).encode())


def test_contracts_answer_is_kept() -> None:
    """All keys of the contract come through under their names; unknown values are absent, not null."""
    status = _read()
    assert status["progress"] == ANSWER["progress"]
    assert status["cpu"] == CPU
    assert status["members"][0] == ANSWER["members"][0]
    assert "cpu" not in status["members"][1]
    assert status["failures"][0]["id"] == "pod/1"
    assert "verdict" not in status


@pytest.mark.parametrize(
    ("changes", "key", "expected"),
    [
        pytest.param(
            {"trouble": {"reason": "New", "message": "a\nb", "seconds": 1.5}},
            "trouble",
            {"reason": "New", "message": "a b", "seconds": 1.5},
            id="trouble of a newer launcher",
        ),
        pytest.param(
            {"stragglers": {"ranks": [3], "count": 1, "seconds": float("inf")}},
            "stragglers",
            {"ranks": [3], "count": 1},
            id="stragglers",
        ),
        pytest.param({"progress": {"step": 1, "loss": float("nan")}}, "progress", {"step": 1}, id="NaN"),
        pytest.param({"progress": {"step": 2.0}}, "progress", {"step": 2}, id="whole float"),
        pytest.param({"progress": {"step": 1, "new": 1}}, "progress", {"step": 1}, id="unknown key"),
        pytest.param(
            {"progress": {"step": 1, "backend": "\x1b[31mred\n" + "x" * 5000}},
            "progress",
            {"step": 1, "backend": " [31mred " + "x" * 1015},
            id="terminal escapes and length",
        ),
    ],
)
def test_harmless_parts_are_made_harmless(changes: dict[str, Any], key: str, expected: Any) -> None:
    """One odd value does not cost the whole answer."""
    assert _read(**changes)[key] == expected


@pytest.mark.parametrize(
    ("body", "where"),
    [
        pytest.param(b"", "document", id="empty"),
        pytest.param(b"<html>", "document", id="not JSON"),
        pytest.param(b"[]", "document", id="a list"),
        pytest.param(b"[" * 100_000, "document", id="deeply nested"),
        pytest.param(b'{"contract": 1}', "jobUid", id="key missing"),
        pytest.param({"worker": -1}, "worker", id="negative worker"),
        pytest.param({"worker": True}, "worker", id="boolean for a number"),
        pytest.param({"state": "Dancing"}, "state", id="unknown state"),
        pytest.param({"round": 10**30}, "round", id="number that no API server takes"),
        pytest.param({"progress": {"step": "1"}}, "progress.step", id="text for a number"),
        pytest.param({"missing": list(range(512)) * 2}, "missing", id="too many items"),
        pytest.param({"failures": [{"id": "x"}] * 33}, "failures", id="too many failures"),
    ],
)
def test_wrong_answer_is_refused(body: bytes | dict[str, Any], where: str) -> None:
    """The error is a LauncherError that names the key; nothing else escapes."""
    raw = body if isinstance(body, bytes) else json.dumps({**ANSWER, **body}).encode()
    with pytest.raises(LauncherError, match=where) as caught:
        read_status(raw)
    assert caught.value.cause == "invalid"


Responder = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def _launcher(answer: Responder) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _json(_request: web.Request) -> web.StreamResponse:
    return web.json_response(ANSWER)


async def _redirect(request: web.Request) -> web.StreamResponse:
    if request.path == "/elsewhere":
        return web.json_response(ANSWER)
    raise web.HTTPFound("/elsewhere")


async def _endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" " * 1024)


async def _dripping(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.02)


async def _bomb(_request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"\x1f\x8b" + b"\0" * 100, headers={"Content-Encoding": "gzip"})


async def _failing(_request: web.Request) -> web.StreamResponse:
    return web.Response(status=503)


async def _long_header(_request: web.Request) -> web.StreamResponse:
    return web.Response(headers={"X-Long": "x" * 100_000})


def _client() -> LauncherClient:
    return LauncherClient(timeout_seconds=0.5, max_bytes=MAX_BYTES)


async def test_status_is_read() -> None:
    """The whole way over HTTP."""
    async with _launcher(_json) as port, _client() as client:
        assert (await client.status("127.0.0.1", port=port))["round"] == 2


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        pytest.param(_redirect, "http", id="redirect is not followed"),
        pytest.param(_endless, "too-large", id="endless body"),
        pytest.param(_dripping, "timeout", id="a byte now and then"),
        pytest.param(_bomb, "invalid", id="compressed body is not unpacked"),
        pytest.param(_failing, "http", id="server error"),
        pytest.param(_long_header, "http", id="endless header"),
    ],
)
async def test_hostile_server_costs_little_and_is_named(answer: Responder, cause: str) -> None:
    """Whatever answers, the question ends in a LauncherError with its cause."""
    async with _launcher(answer) as port, _client() as client:
        with pytest.raises(LauncherError) as caught:
            await client.status("127.0.0.1", port=port)
    assert caught.value.cause == cause


async def test_nobody_there() -> None:
    """A closed port says so at once."""
    async with _launcher(_json) as port:
        pass
    async with _client() as client:
        with pytest.raises(LauncherError) as caught:
            await client.status("127.0.0.1", port=port)
    assert caught.value.cause == "refused"


async def test_log_is_the_tail() -> None:
    """Of a long log the end is kept, whatever bytes are in it."""

    async def log(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"first\n" + b"x" * 200 + b"\xff last")

    async with _launcher(log) as port, _client() as client:
        tail = await client.log_tail("127.0.0.1", tail_bytes=16, port=port)
    assert tail == "x" * 10 + "� last"
