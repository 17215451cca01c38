"""A small HTTP/1.1 server on asyncio: keep-alive, every size and every wait bounded. It knows no routes.

When it is full, a newcomer takes the place of another connection: of one that has sent no whole request yet,
else of one that does not take its answer, else of the one that has been idle for longest. So half-open and
slow clients cost nobody else a place, and only a port full of clients that are being answered refuses one.

Why not `http.server`: 512 members with a connection each would be 512 threads on CPUs that belong to the
ranks. Why not `asyncio.start_server`: it accepts a whole backlog before any of our code runs, and once the
process may open no more files its accepting is a timer for each connection that waits.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Optional

from .waiting import within

BACKLOG = 1024
MOST_CONNECTIONS = 2048
MAX_HEAD_BYTES = 8192
MAX_BODY_BYTES = 16384
IDLE_SECONDS = 75.0
HEAD_SECONDS = 10.0
BODY_SECONDS = 10.0
WRITE_SECONDS = 10.0
ACCEPT_AGAIN_SECONDS = 0.05

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


def most_connections() -> int:
    """How many connections there may be: the files that this process may open are for the ranks' output and
    the launcher's own too."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if limit == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, limit // 2)


# What a connection does, in the order in which the server does without it.
STRANGE, WRITING, IDLE, ANSWERING = range(4)


class _Connections:
    """All clients by what they do, those that have done it for longest first."""

    def __init__(self) -> None:
        self._doing: dict[asyncio.Task[None], int] = {}
        self._queues: list[dict[asyncio.Task[None], None]] = [{} for _ in range(ANSWERING + 1)]

    def __len__(self) -> int:
        return len(self._doing)

    def __iter__(self) -> Iterator[asyncio.Task[None]]:
        return iter(tuple(self._doing))

    def note(self, task: asyncio.Task[None], doing: int) -> None:
        """The client that this task serves does something else from now on. One that is gone stays so."""
        before = self._doing.get(task)
        if before is not None:
            del self._queues[before][task]
            self._doing[task] = doing
            self._queues[doing][task] = None

    def add(self, task: asyncio.Task[None]) -> None:
        """A client that has said nothing yet."""
        self._doing[task] = STRANGE
        self._queues[STRANGE][task] = None

    def discard(self, task: asyncio.Task[None]) -> None:
        """The client is gone."""
        doing = self._doing.pop(task, None)
        if doing is not None:
            del self._queues[doing][task]

    def least(self) -> Optional[asyncio.Task[None]]:
        """The client that will be missed least; None where all are being answered."""
        return next((next(iter(queue)) for queue in self._queues[:ANSWERING] if queue), None)


class HttpServer:
    """Serves `handler` on one port. `on_error` is told of an exception in the handler, which answers 500."""

    def __init__(
        self,
        handler: Handler,
        *,
        on_error: Callable[[BaseException], None],
        most: Optional[int] = None,
    ) -> None:
        self._handler = handler
        self._on_error = on_error
        self._most = most_connections() if most is None else most
        self._socket: Optional[socket.socket] = None
        self._accepting: Optional[asyncio.Future[None]] = None
        self._connections = _Connections()

    async def start(self, *, host: str, port: int) -> int:
        """Binds and listens; returns the port, which the kernel chooses where 0 is asked for. Raises
        OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self._socket.setblocking(False)
        self._accepting = asyncio.ensure_future(self._accept(self._socket))
        return int(self._socket.getsockname()[1])

    async def close(self) -> None:
        """Closes the port and every connection."""
        tasks: list[asyncio.Future[None]] = [*self._connections]
        if self._accepting is not None:
            tasks.append(self._accepting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError:
                # No more files may be opened, or the client is gone already.
                self._make_room()
                await asyncio.sleep(ACCEPT_AGAIN_SECONDS)
                continue
            if len(self._connections) < self._most or self._make_room():
                await self._welcome(accepted)
            else:
                accepted.close()
                await asyncio.sleep(0)

    async def _welcome(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MAX_HEAD_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted)
        except OSError:
            accepted.close()
            return
        # Of an answer that is not taken no second copy is made.
        transport.set_write_buffer_limits(high=MAX_HEAD_BYTES)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        task = asyncio.ensure_future(self._converse(reader, writer))
        self._connections.add(task)
        task.add_done_callback(lambda _: self._gone(task, transport))

    def _gone(self, task: asyncio.Task[None], transport: asyncio.BaseTransport) -> None:
        self._connections.discard(task)
        if task.cancelled() and isinstance(transport, asyncio.WriteTransport):
            # Before its first step: nobody else closes the connection.
            transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            await self._serve(reader, writer, task)
            writer.close()
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # The other side is gone or too slow, or makes room: nobody is left to tell.
            writer.transport.abort()
        except Exception as error:
            writer.transport.abort()
            self._on_error(error)

    def _make_room(self) -> bool:
        least = self._connections.least()
        if least is None:
            return False
        self._connections.discard(least)
        least.cancel()
        return True

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        note = self._connections.note
        while True:
            try:
                request = await read_request(reader)
            except BadRequest as error:
                response = Response(error.status, str(error).encode())
                await _write(writer, response, keep_alive=False)
                return
            if request is None:
                return
            note(task, ANSWERING)
            response = await self._handle(request)
            note(task, WRITING)
            await _write(writer, response, keep_alive=request.keep_alive)
            note(task, IDLE)
            if not request.keep_alive:
                return

    async def _handle(self, request: Request) -> Response:
        try:
            return await self._handler(request)
        except Exception as error:
            self._on_error(error)
            return Response(500, b"internal error; the launcher's log has it\n")


async def read_request(reader: asyncio.StreamReader) -> Optional[Request]:
    """The next request on the connection; None where it ends. Raises BadRequest.

    A connection may be idle for IDLE_SECONDS; once a request has begun it has HEAD_SECONDS to come.
    """
    first = await within(IDLE_SECONDS, reader.read(1))
    if not first:
        return None
    try:
        head = first + await within(HEAD_SECONDS, reader.readuntil(b"\r\n\r\n"))
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
