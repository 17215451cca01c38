"""The launcher's one port: gang reports, health, status, log and metrics."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from typing import Any, Optional, Protocol

from ..gang.messages import Answer, Report, read_report
from ..gang.wire import MessageError, encode
from .http import JSON, TEXT, Handler, HttpServer, Request, Response

GANG_PATH = "/gang"
LOG_BYTES = 65536
METRICS_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class NotReadyError(Exception):
    """Worker 0 cannot take reports yet; the text says why."""


class Pages(Protocol):
    """What the port shows; the launcher provides it."""

    def ready(self) -> Optional[str]:
        """None where this worker is ready, else a sentence."""

    def status(self) -> dict[str, Any]:
        """The contract's `/status`."""

    def log(self, max_bytes: int) -> bytes:
        """The tail of the run's log."""

    def metrics(self) -> str:
        """Prometheus text."""


Exchange = Callable[[Report], Awaitable[Answer]]


def make_server(
    pages: Pages, *, job_uid: str, exchange: Optional[Exchange], on_error: Callable[[BaseException], None]
) -> HttpServer:
    """The server of a launcher. `exchange` answers gang reports; None where this is not worker 0."""
    return HttpServer(make_handler(pages, job_uid=job_uid, exchange=exchange), on_error=on_error)


def bind_host(pod_ip: str) -> str:
    """The address to listen on: all of the pod's; only the loopback where the pod is this machine."""
    try:
        address = ipaddress.ip_address(pod_ip)
    except ValueError:
        return "0.0.0.0"
    if address.is_loopback:
        return pod_ip
    return "::" if address.version == 6 else "0.0.0.0"


def make_handler(pages: Pages, *, job_uid: str, exchange: Optional[Exchange]) -> Handler:
    """The routes."""

    async def handle(request: Request) -> Response:
        if request.path == GANG_PATH:
            return await _gang(request, job_uid=job_uid, exchange=exchange)
        if request.method != "GET":
            return Response(405, b"only GET is served here\n")
        return _page(request, pages)

    return handle


def _page(request: Request, pages: Pages) -> Response:
    if request.path == "/healthz":
        return Response(200, b"ok\n")
    if request.path == "/readyz":
        reason = pages.ready()
        return Response(200, b"ok\n") if reason is None else Response(503, reason.encode() + b"\n")
    if request.path == "/status":
        return Response(200, encode(pages.status()), JSON)
    if request.path == "/log":
        return Response(200, pages.log(LOG_BYTES), TEXT)
    if request.path == "/metrics":
        return Response(200, pages.metrics().encode(), METRICS_TEXT)
    return Response(404, b"there are /healthz, /readyz, /status, /log and /metrics\n")


async def _gang(request: Request, *, job_uid: str, exchange: Optional[Exchange]) -> Response:
    if exchange is None:
        return Response(404, b"not worker 0: the gang meets there\n")
    if request.method != "POST":
        return Response(405, b"reports come by POST\n")
    try:
        report = read_report(request.body)
    except MessageError as error:
        return Response(400, f"{error}\n".encode("utf-8", "replace"))
    if report.job_uid != job_uid:
        return Response(409, f"this is job {job_uid}\n".encode())
    try:
        answer = await exchange(report)
    except NotReadyError as error:
        return Response(503, f"{error}\n".encode("utf-8", "replace"))
    return Response(200, answer.to_bytes(), JSON)
