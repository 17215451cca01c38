"""The end of a pod's log, however long it is: its last bytes, nothing else in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from kubernetes.aio.client import Configuration
from xeontrain_operator.kube import errors
from xeontrain_operator.kube.aio import AioKubeClient

TAIL_BYTES = 1024
# The end of what is kept stands behind more bytes than any limit in lines of usual length allows for.
LONG_LINES = b"".join(b"%03d " % number + b"x" * 40_000 + b"\n" for number in range(64)) + b"the end\n"


@pytest.fixture
async def seen() -> list[tuple[str, str, int]]:
    """The calls that the client has told of."""
    return []


@pytest.fixture
async def client(seen: list[tuple[str, str, int]]) -> AsyncIterator[AioKubeClient]:
    """Against a server on loopback that answers every pod's log but that of the pod `gone`."""

    async def answer(request: web.Request) -> web.Response:
        if request.match_info["pod"] == "gone":
            return web.json_response({"kind": "Status", "message": 'pods "gone" not found'}, status=404)
        assert int(request.query["tailLines"]) >= 64
        assert "limitBytes" not in request.query
        return web.Response(body=LONG_LINES)

    app = web.Application()
    app.router.add_get("/api/v1/namespaces/team/pods/{pod}/log", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    client = AioKubeClient(
        Configuration(host=f"http://127.0.0.1:{port}"), on_call=lambda *call: seen.append(call)
    )
    yield client
    await client.close()
    await runner.cleanup()


async def test_the_very_end_of_long_lines(client: AioKubeClient, seen: list[tuple[str, str, int]]) -> None:
    """Not the first bytes of the last lines."""
    text = await client.pod_log(namespace="team", name="pod", container="trainer", tail_bytes=TAIL_BYTES)
    assert text == LONG_LINES[-TAIL_BYTES:].decode()
    assert seen == [("log", "Pod", 200)]


async def test_a_pod_that_is_gone(client: AioKubeClient, seen: list[tuple[str, str, int]]) -> None:
    """The API server's own words, as of any other call."""
    with pytest.raises(errors.NotFound, match='pods "gone" not found'):
        await client.pod_log(namespace="team", name="gone", container="trainer", tail_bytes=TAIL_BYTES)
    assert seen == [("log", "Pod", 404)]
