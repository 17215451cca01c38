"""Progress by Kubeflow Trainer's protocol: an unmodified Hugging Face `Trainer` script reports its own by it.

The protocol (kubeflow/trainer, proposal 2779; spoken by transformers' `KubeflowCallback`): who finds a URL
in KUBEFLOW_TRAINER_SERVER_URL posts `{"trainerStatus": {"progressPercentage", "estimatedRemainingSeconds",
"metrics": [{"name", "value"}], "lastUpdatedTime"}}` to it, with the bearer token of the file that
KUBEFLOW_TRAINER_SERVER_TOKEN names, and stays silent without one. Here it is answered on the loopback alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Optional

from .files import write_whole
from .http import JSON, HttpServer, Request, Response
from .progress import is_number, read_progress

ENV_URL = "KUBEFLOW_TRAINER_SERVER_URL"
ENV_TOKEN = "KUBEFLOW_TRAINER_SERVER_TOKEN"
LOOPBACK = "127.0.0.1"
MAX_CONNECTIONS = 8
# Of a report that names more, the first ones count.
MAX_METRICS = 1024

# Keys of the contract's `progress` by the names of transformers' metrics, the better name first.
METRICS = (
    ("step", ("current_step",)),
    ("totalSteps", ("total_steps",)),
    ("epoch", ("current_epoch", "epoch")),
    ("loss", ("loss", "train_loss")),
    ("samplesPerSecond", ("train_samples_per_second",)),
)
WHOLE = ("step", "totalSteps")
# Steps of a run of which only the percentage is known.
PERCENT_STEPS = 100

Take = Callable[[Mapping[str, Any]], None]


class KubeflowPort:
    """The server of one launcher. `take` gets the contract's `progress` object of each report.

    Its address is a secret of this launcher: the loopback of `xeontrain run` is the whole machine's.
    """

    def __init__(self, take: Take, *, state_dir: str, on_error: Callable[[BaseException], None]) -> None:
        self._take = take
        self._token_file = os.path.join(state_dir, "kubeflow-token")
        self._path = f"/{os.urandom(16).hex()}"
        self._server = HttpServer(self._handle, on_error=on_error, most=MAX_CONNECTIONS)
        self._last: Mapping[str, Any] = {}

    async def start(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Listens on a free port; returns what the environment of the ranks needs besides `environ`. Raises
        OSError.

        Nothing where the user has a server of his own.
        """
        if environ.get(ENV_URL):
            return {}
        write_whole(self._token_file, b"none is needed here\n")
        port = await self._server.start(host=LOOPBACK, port=0)
        url = f"http://{LOOPBACK}:{port}{self._path}"
        return {ENV_URL: url, ENV_TOKEN: self._token_file, **around_proxy(environ)}

    async def close(self) -> None:
        """Closes the port."""
        await self._server.close()

    async def _handle(self, request: Request) -> Response:
        if request.path != self._path:
            return Response(404, b"not here\n")
        if request.method != "POST":
            return Response(405, b"progress comes by POST\n")
        progress = read_report(request.body, before=self._last)
        if progress is None:
            return Response(400, b"not a report of progress\n")
        self._last = progress
        self._take(progress)
        return Response(200, b"{}\n", JSON)


def read_report(body: bytes, *, before: Mapping[str, Any]) -> Optional[dict[str, Any]]:
    """The contract's `progress` object of a report, None where it is none or tells of no step.

    `before`: that of the report before. The first report has no step and the last one no number of steps:
    both follow from the percentage.
    """
    status = _status(body)
    if status is None:
        return None
    metrics = _metrics(status.get("metrics"))
    line: dict[str, Any] = {}
    for key, names in METRICS:
        value = next((metrics[name] for name in names if name in metrics), None)
        if value is not None:
            line[key] = round(value) if key in WHOLE else value
    line.setdefault("totalSteps", before.get("totalSteps", PERCENT_STEPS))
    percent: Any = status.get("progressPercentage")
    if "step" not in line and is_number(percent):
        line["step"] = round(min(max(percent, 0), 100) / 100 * line["totalSteps"])
    line["etaSeconds"] = status.get("estimatedRemainingSeconds")
    return read_progress(line)


def around_proxy(environ: Mapping[str, str]) -> dict[str, str]:
    """Python's urllib would send even the loopback's requests to a proxy."""
    if not any(environ.get(name) for name in ("http_proxy", "HTTP_PROXY")):
        return {}
    excepted = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    return {"no_proxy": ",".join(part for part in (excepted, LOOPBACK) if part)}


def _status(body: bytes) -> Optional[Mapping[str, Any]]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    status = document.get("trainerStatus") if isinstance(document, dict) else None
    return status if isinstance(status, dict) else None


def _metrics(items: Any) -> dict[str, float]:
    """Numbers by name; they travel as texts."""
    found: dict[str, float] = {}
    for item in items[:MAX_METRICS] if isinstance(items, list) else ():
        name, value = (item.get("name"), item.get("value")) if isinstance(item, dict) else (None, None)
        if isinstance(name, str) and isinstance(value, str):
            try:
                number = float(value)
            except ValueError:
                continue
            if is_number(number):
                found[name] = number
    return found
