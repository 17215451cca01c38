"""The operator's entry: `python -m xeontrain_operator.main`, or `kopf run -m xeontrain_operator.main`.

The first takes namespaces, ports and the log's form from the settings; the second from kopf's command line.
Importing the module registers the handlers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from typing import Any, Final, cast

import kopf

from xeontrain_operator.handlers import lifecycle, probes, watches
from xeontrain_operator.handlers.runtime import make_runtime
from xeontrain_operator.kube.config import ConfigurationError
from xeontrain_operator.settings import SettingsError

__all__ = ["lifecycle", "main", "probes", "watches"]

ENV_LOG_FORMAT: Final = "XEONTRAIN_OPERATOR_LOG_FORMAT"
"""`plain` (default) or `json`."""

_log = logging.getLogger("xeontrain_operator")


def main() -> int:
    """Run until SIGTERM or SIGINT. Returns the exit code: 0 after a signal, 1 where it could not go on."""
    configure_logging(json=os.environ.get(ENV_LOG_FORMAT, "plain") == "json")
    try:
        asyncio.run(_operate())
    except (SettingsError, ConfigurationError) as error:
        _log.error("%s", error)
        return 1
    except Exception:
        # The kubelet starts us again; that is how a broken watch is mended.
        _log.exception("the operator ends")
        return 1
    return 0


def configure_logging(*, json: bool) -> None:
    """One line a record to stderr, as JSON objects or as text."""
    kopf.configure(log_format=kopf.LogFormat.JSON if json else kopf.LogFormat.FULL, log_prefix=False)
    lifecycle.quiet()


async def _operate() -> None:
    runtime = await make_runtime(os.environ)
    settings = runtime.settings
    _log.info("serving %s", ", ".join(settings.watch_namespaces) or "all namespaces")
    await kopf.operator(
        memo=kopf.Memo(runtime=runtime),
        # kopf would look the user up, and fail under a user ID that the image has no name for.
        identity=cast(Any, socket.gethostname()),
        standalone=True,
        clusterwide=not settings.watch_namespaces,
        namespaces=settings.watch_namespaces,
        liveness_endpoint=f"http://0.0.0.0:{settings.probe_port}/healthz",
    )


if __name__ == "__main__":
    sys.exit(main())
