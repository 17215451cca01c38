"""How a member reaches the coordinator: in the same process for worker 0, over HTTP for the others."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Optional, Protocol

from ..gang.messages import ELSEWHERE, Answer, Report, read_answer
from ..gang.timing import RECONNECT_SECONDS
from ..gang.wire import MAX_MESSAGE_BYTES, MessageError
from .trouble import NAME_NOT_FOUND, NOT_THE_GANG, REFUSED, TIMED_OUT, UNREACHABLE
from .waiting import within

CONNECT_SECONDS = 3.0
RESOLVE_SECONDS = 5.0
GRACE_SECONDS = 5.0


class Unreachable(Exception):
    """The coordinator has not answered this report; the text says why, `reason` in a word of trouble.REASONS.
    The next one may reach it."""

    def __init__(self, text: str, *, reason: str = UNREACHABLE) -> None:
        super().__init__(text)
        self.reason = reason


class _NotReadyError(MessageError):
    """Worker 0's launcher is there and takes no reports yet."""


class Transport(Protocol):
    """Takes a report to the coordinator and brings its answer."""

    async def exchange(self, report: Report) -> Answer:
        """The answer, maybe held until there is something to say. Raises Unreachable."""

    def close(self) -> None:
        """Lets go of connections."""


class LocalTransport:
    """Worker 0's own member speaks to its own coordinator, whatever the network does."""

    def __init__(self, exchange: Callable[[Report], Awaitable[Answer]]) -> None:
        self._exchange = exchange

    async def exchange(self, report: Report) -> Answer:
        """The coordinator's answer."""
        return await self._exchange(report)

    def close(self) -> None:
        """Nothing to let go of."""


class HttpTransport:
    """One keep-alive connection to worker 0.

    A new one is opened after RECONNECT_SECONDS, after any trouble, and where the coordinator sends elsewhere;
    each time the name is resolved again, and where that fails the last address that answered is tried.
    `hold_seconds`: how long the coordinator may hold an answer.
    """

    def __init__(self, *, host: str, port: int, hold_seconds: float) -> None:
        self._host = host
        self._port = port
        self._timeout = hold_seconds + GRACE_SECONDS
        self._stream: Optional[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = None
        self._opened_at = 0.0
        self._address: Optional[str] = None
        self._good_address: Optional[str] = None

    async def exchange(self, report: Report) -> Answer:
        """The coordinator's answer. Raises Unreachable."""
        if time.monotonic() - self._opened_at > RECONNECT_SECONDS:
            self.close()
        reused = self._stream is not None
        try:
            return await self._attempt(report)
        except Unreachable:
            if not reused:
                raise
            # The other side may have closed an idle connection just now.
            return await self._attempt(report)

    async def _attempt(self, report: Report) -> Answer:
        try:
            answer = await within(self._timeout, self._round_trip(report))
        except BaseException as error:
            place = f"{self._address} port {self._port}: " if self._stream is not None else ""
            # A cancelled report leaves its answer unread: the connection cannot be used again.
            self.close()
            if isinstance(error, _NotReadyError):
                raise Unreachable(f"worker 0 is not ready: {error}", reason=REFUSED) from error
            if isinstance(error, MessageError):
                text = f"{self._address} answers with {error}"
                raise Unreachable(text, reason=NOT_THE_GANG) from error
            if isinstance(error, (OSError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError)):
                raise Unreachable(f"{place}{_explain(error)}", reason=_reason(error)) from error
            raise
        self._good_address = self._address
        if answer.kind == ELSEWHERE:
            self.close()
        return answer

    async def _round_trip(self, report: Report) -> Answer:
        reader, writer = self._stream or await self._open()
        body = report.to_bytes()
        head = (
            f"POST /gang HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode("latin-1") + body)
        await writer.drain()
        return await _read_answer(reader)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        failure = Unreachable(f"{self._host} has no address", reason=NAME_NOT_FOUND)
        for address in await self._addresses():
            try:
                stream = await within(CONNECT_SECONDS, asyncio.open_connection(address, self._port))
            except (OSError, asyncio.TimeoutError) as refused:
                text = f"{address} port {self._port}: {_explain(refused)}"
                failure = Unreachable(text, reason=_reason(refused))
                continue
            self._stream, self._address, self._opened_at = stream, address, time.monotonic()
            return stream
        raise failure

    async def _addresses(self) -> list[str]:
        """What the name stands for now, in random order, and at last what answered before."""
        loop = asyncio.get_running_loop()
        found: list[str] = []
        try:
            lookup = loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            found = sorted({str(entry[4][0]) for entry in await within(RESOLVE_SECONDS, lookup)})
        except (OSError, UnicodeError, asyncio.TimeoutError) as error:
            if self._good_address is None:
                text = f"the name {self._host} is not known: {_explain(error)}"
                raise Unreachable(text, reason=NAME_NOT_FOUND) from None
        random.shuffle(found)
        if self._good_address is not None and self._good_address not in found:
            found.append(self._good_address)
        return found

    def close(self) -> None:
        """Closes the connection; the next report opens another."""
        if self._stream is not None:
            with contextlib.suppress(Exception):
                self._stream[1].close()
        self._stream = None


async def _read_answer(reader: asyncio.StreamReader) -> Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    status = head.split(" ", 2)[1] if head.startswith("http/1.1 ") else ""
    length = next(
        (h.partition(":")[2].strip() for h in head.split("\r\n") if h.startswith("content-length:")), ""
    )
    if not length.isascii() or not length.isdigit() or int(length) > MAX_MESSAGE_BYTES:
        raise MessageError("something that is not the gang's protocol")
    body = await reader.readexactly(int(length))
    if status == "503":
        raise _NotReadyError(body[:500].decode("utf-8", "replace").strip())
    if status != "200":
        raise MessageError(f"status {status}: {body[:200].decode('utf-8', 'replace').strip()}")
    return read_answer(body)


def _reason(error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return REFUSED
    # Before Python 3.11 the two are different classes; errno ETIMEDOUT is the second.
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        return TIMED_OUT
    return UNREACHABLE


def _explain(error: BaseException) -> str:
    if isinstance(error, asyncio.TimeoutError) and not getattr(error, "strerror", None):
        return "no answer in time"
    if isinstance(error, EOFError):
        return "the connection was closed"
    if isinstance(error, OSError) and error.strerror:
        # asyncio adds the address to the system's words; codes of the name service are negative.
        return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
    return str(error) or type(error).__name__
