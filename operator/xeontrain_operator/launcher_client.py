"""Asking a launcher in a trainer pod. What answers there is the user's code as much as ours: trust nothing.

No redirects, no cookies, no proxies, no decompression, a cap on size and time, and a validated answer in
which every text is short and printable and every number is one that the API server will take.
"""

from __future__ import annotations

import asyncio
import math
from types import TracebackType
from typing import Annotated, Any, Literal, Self

import aiohttp
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from xeontrain_operator import constants

_MAX_TEXT = 1024
_MAX_WORKERS = 512
_MAX_FAILURES = 32
_MAX_METRICS = 64
_MAX_RANKS_NAMED = 64
_MAX_WARNINGS = 16
# The largest integer that JSON readers agree on.
_MAX_INTEGER = 2**53 - 1


class LauncherError(Exception):
    """No usable answer; the text says why, in a form that may be shown to people.

    `cause` is one word of a closed list: `refused`, `timeout`, `unreachable`, `http`, `too-large`, `invalid`,
    `stranger` (another pod has the address now).
    """

    def __init__(self, message: str, *, cause: str) -> None:
        super().__init__(message)
        self.cause = cause


def _printable(value: object) -> object:
    """Cut, and without control characters: the text goes to terminals."""
    if not isinstance(value, str):
        return value
    return "".join(letter if letter.isprintable() else " " for letter in value[:_MAX_TEXT])


def _finite(value: object) -> object:
    """NaN and infinity are unknown: JSON and the API server have no such numbers."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _whole(value: object) -> object:
    """`3.0` for a count is a 3 to whoever wrote it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _finite_values(value: object) -> object:
    if not isinstance(value, dict):
        return value
    numbers = {name: number for name, number in value.items() if _finite(number) is not None}
    return dict(list(numbers.items())[:_MAX_METRICS])


Text = Annotated[str, BeforeValidator(_printable)]
Count = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=_MAX_INTEGER)]
Number = Annotated[float | None, BeforeValidator(_finite)]
Amount = Annotated[Annotated[float, Field(ge=0)] | None, BeforeValidator(_finite)]


class _Answer(BaseModel):
    """Unknown keys are left out: a newer launcher may say more than we know."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, strict=True)


class Cpu(_Answer):
    """`cpu` of docs/contract.md."""

    model: Text | None = None
    instruction_set: Text | None = None
    cpus: Text | None = None
    ranks: Count | None = None
    cores_per_rank: Count | None = None
    comm_cores_per_rank: Count | None = None
    exclusive: Literal["True", "False", "Unknown"] = "Unknown"
    reason: Text | None = None
    message: Text | None = None
    changed: Text | None = None


class Resume(_Answer):
    """`resume` in `progress` of docs/contract.md."""

    step: Count
    exact: bool
    reason: Text = ""


class Progress(_Answer):
    """`progress` of docs/contract.md."""

    step: Count
    total_steps: Count | None = None
    epoch: Amount = None
    loss: Number = None
    samples_per_second: Amount = None
    eta_seconds: Amount = None
    precision: Text | None = None
    backend: Text | None = None
    precision_emulated: bool | None = None
    precision_reason: Text | None = None
    backend_reason: Text | None = None
    ipex_used: bool | None = None
    ipex_reason: Text | None = None
    fp32_samples_per_second: Amount = None
    bf16_samples_per_second: Amount = None
    worker_samples_per_second: Annotated[list[Amount], Field(max_length=_MAX_WORKERS)] | None = None
    last_checkpoint_step: Count | None = None
    resume: Resume | None = None
    time: Text | None = None


class Member(_Answer):
    """An item of `members`."""

    worker: Annotated[int, Field(ge=0, lt=_MAX_WORKERS)]
    pod_uid: Text | None = None
    state: Text | None = None
    round: Count = 0
    cpu: Cpu | None = None
    last_seen_seconds: Amount = None
    state_seconds: Amount = None


class Trouble(_Answer):
    """`trouble` of docs/contract.md; a newer launcher may have reasons that we do not know."""

    reason: Text
    message: Text
    seconds: Amount = None


class Stragglers(_Answer):
    """`stragglers` of docs/contract.md."""

    ranks: Annotated[list[Count], Field(max_length=_MAX_RANKS_NAMED)] = []
    count: Count
    seconds: Amount = None


class VerdictFailure(_Answer):
    """`failure` of the result document."""

    worker: Count | None = None
    rank: Count | None = None
    exit_code: int | None = Field(default=None, ge=-_MAX_INTEGER, le=_MAX_INTEGER)
    signal: int | None = Field(default=None, ge=0, le=128)
    reason: Text | None = None
    detail: Text | None = None
    message: Text | None = None


class Failure(VerdictFailure):
    """An item of `failures`."""

    id: Text
    round: Count = 0
    time: Text | None = None


class ResultDocument(_Answer):
    """The result document of docs/contract.md."""

    contract: int
    job_uid: Text
    worker: int
    round: Count
    outcome: Literal["Succeeded", "Failed"]
    metrics: Annotated[dict[Text, float], BeforeValidator(_finite_values)] = {}
    model: Text | None = None
    failures: Count = 0
    failure: VerdictFailure | None = None


class StatusAnswer(_Answer):
    """`GET /status` of docs/contract.md."""

    contract: int
    job_uid: Text
    worker: Annotated[int, Field(ge=0, lt=_MAX_WORKERS)]
    pod_uid: Text
    state: Literal["Waiting", "Starting", "Running", "Stopping", "Parked"]
    round: Count = 0
    members: Annotated[list[Member], Field(max_length=_MAX_WORKERS)] = []
    missing: Annotated[
        list[Annotated[int, Field(ge=0, lt=_MAX_WORKERS)]], Field(max_length=_MAX_WORKERS)
    ] = []
    cpu: Cpu | None = None
    warnings: Annotated[list[Text], Field(max_length=_MAX_WARNINGS)] = []
    progress: Progress | None = None
    failures: Annotated[list[Failure], Field(max_length=_MAX_FAILURES)] = []
    failures_counted: Count = 0
    trouble: Trouble | None = None
    stragglers: Stragglers | None = None
    verdict: ResultDocument | None = None


def read_status(body: bytes) -> dict[str, Any]:
    """The answer as a document with the contract's keys; what is unknown is absent.

    Raises LauncherError (`invalid`) naming the first wrong key.
    """
    try:
        answer = StatusAnswer.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(str(_printable(str(part))) for part in first["loc"]) or "document"
        raise LauncherError(
            f"the launcher's /status is not what docs/contract.md says: {where}: {first['msg']}",
            cause="invalid",
        ) from None
    return answer.model_dump(by_alias=True, exclude_none=True)


class LauncherClient:
    """An HTTP client for launchers, safe against what may answer in their place."""

    def __init__(self, *, timeout_seconds: float, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # A new connection each time: an address may belong to another pod by the next question.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True, limit=64),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=timeout_seconds),
            auto_decompress=False,
            trust_env=False,
            headers={"Accept-Encoding": "identity"},
            max_line_size=8190,
            max_field_size=8190,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def status(self, pod_ip: str, *, port: int = constants.LAUNCHER_PORT) -> dict[str, Any]:
        """`GET /status`, validated. Raises LauncherError."""
        return read_status(await self._get(pod_ip, port, "/status", max_bytes=self._max_bytes))

    async def log_tail(self, pod_ip: str, *, tail_bytes: int, port: int = constants.LAUNCHER_PORT) -> str:
        """The end of `GET /log`. Raises LauncherError."""
        body = await self._get(pod_ip, port, "/log", max_bytes=64 * tail_bytes)
        return body[-tail_bytes:].decode("utf-8", "replace")

    async def close(self) -> None:
        await self._session.close()

    async def _get(self, pod_ip: str, port: int, path: str, *, max_bytes: int) -> bytes:
        host = f"[{pod_ip}]" if ":" in pod_ip else pod_ip
        try:
            async with self._session.get(f"http://{host}:{port}{path}", allow_redirects=False) as response:
                if response.status != 200:
                    raise LauncherError(f"{path} answered HTTP {response.status}", cause="http")
                return await _read(response, max_bytes=max_bytes)
        except TimeoutError:
            raise LauncherError(f"{path} did not answer in time", cause="timeout") from None
        except aiohttp.ClientConnectorError as error:
            cause = "refused" if isinstance(error.os_error, ConnectionRefusedError) else "unreachable"
            raise LauncherError(f"{path}: {error.os_error.strerror or error}", cause=cause) from None
        except (aiohttp.ClientError, OSError, ValueError, asyncio.IncompleteReadError) as error:
            raise LauncherError(f"{path}: {type(error).__name__}", cause="http") from None


async def _read(response: aiohttp.ClientResponse, *, max_bytes: int) -> bytes:
    """The body, never more of it in memory than allowed."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(16384):
        body += chunk
        if len(body) > max_bytes:
            raise LauncherError(f"the answer is longer than {max_bytes} bytes", cause="too-large")
    return bytes(body)
