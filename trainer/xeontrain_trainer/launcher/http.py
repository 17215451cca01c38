"""A small HTTP/1.1 server on asyncio: keep-alive, every size and every wait bounded. It knows no routes.

Why not `http.server`: 512 members with a connection each would be 512 threads on CPUs that belong to the
ranks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Optional

from .waiting import within

BACKLOG = 1024
MAX_CONNECTIONS = 2048
MAX_HEAD_BYTES = 8192
MAX_BODY_BYTES = 16384
IDLE_SECONDS = 75.0
BODY_SECONDS = 10.0
WRITE_SECONDS = 10.0

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"

REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    411: "Length Required",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@dataclass(frozen=True)
class Request:
    """`path` without the query, which no page here takes."""

    method: str
    path: str
    body: bytes
    keep_alive: bool


@dataclass(frozen=True)
class Response:
    """What a handler gives back."""

    status: int
    body: bytes
    content_type: str = TEXT


Handler = Callable[[Request], Awaitable[Response]]


class BadRequest(Exception):
    """A request that is refused; the connection is closed after the answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class HttpServer:
    """Serves `handler` on one port. `on_error` is told of an exception in the handler, which answers 500."""

    def __init__(self, handler: Handler, *, on_error: Callable[[BaseException], None]) -> None:
        self._handler = handler
        self._on_error = on_error
        self._server: Optional[asyncio.AbstractServer] = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, *, host: str, port: int) -> None:
        """Binds and listens. Raises OSError."""
        self._server = await asyncio.start_server(
            self._connected, host=host, port=port, backlog=BACKLOG, limit=MAX_HEAD_BYTES
        )

    async def close(self) -> None:
        """Closes the port and every connection."""
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= MAX_CONNECTIONS:
            writer.close()
            return
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The other side is gone or too slow, or the server closes: nobody is left to tell.
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                request = await read_request(reader)
            except BadRequest as error:
                response = Response(error.status, str(error).encode())
                await _write(writer, response, keep_alive=False)
                return
            if request is None:
                return
            response = await self._handle(request)
            await _write(writer, response, keep_alive=request.keep_alive)
            if not request.keep_alive:
                return

    async def _handle(self, request: Request) -> Response:
        try:
            return await self._handler(request)
        except Exception as error:
            self._on_error(error)
            return Response(500, b"internal error; the launcher's log has it\n")


async def read_request(reader: asyncio.StreamReader) -> Optional[Request]:
    """The next request on the connection; None where it ends. Raises BadRequest."""
    try:
        head = await within(IDLE_SECONDS, reader.readuntil(b"\r\n\r\n"))
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError:
        raise BadRequest(431, f"more than {MAX_HEAD_BYTES} bytes of header\n") from None
    method, target, version, headers = parse_head(head)
    length = _body_length(method, headers)
    body = await within(BODY_SECONDS, reader.readexactly(length)) if length else b""
    return Request(
        method=method,
        path=target.partition("?")[0],
        body=body,
        keep_alive=version == "HTTP/1.1" and headers.get("connection", "").lower() != "close",
    )


def parse_head(head: bytes) -> tuple[str, str, str, dict[str, str]]:
    """Method, target, version and headers (names in lower case). Raises BadRequest."""
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or not parts[0].isalpha() or parts[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise BadRequest(400, "not an HTTP/1.1 request\n")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if line and (not colon or not name or name != name.strip()):
            raise BadRequest(400, "a header without a name\n")
        if line:
            headers[name.lower()] = value.strip()
    return parts[0], parts[1], parts[2], headers


def _body_length(method: str, headers: dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise BadRequest(411, "send the body with Content-Length\n")
    text = headers.get("content-length", "0" if method != "POST" else "")
    if not text.isascii() or not text.isdigit():
        raise BadRequest(411, "send the body with Content-Length\n")
    if len(text) > 9 or int(text) > MAX_BODY_BYTES:
        raise BadRequest(413, f"more than {MAX_BODY_BYTES} bytes\n")
    return int(text)


async def _write(writer: asyncio.StreamWriter, response: Response, *, keep_alive: bool) -> None:
    head = (
        f"HTTP/1.1 {response.status} {REASONS[response.status]}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        f"Connection: {'keep-alive' if keep_alive else 'close'}\r\n\r\n"
    )
    writer.write(head.encode("latin-1") + response.body)
    await within(WRITE_SECONDS, writer.drain())
