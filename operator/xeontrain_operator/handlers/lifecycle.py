"""Start, credentials and end of the operator, as kopf calls them."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import kopf

from xeontrain_operator.handlers.resync import SELECTOR
from xeontrain_operator.handlers.runtime import Runtime, make_runtime
from xeontrain_operator.handlers.storage import NoDiffBase, NoProgress
from xeontrain_operator.kube import config, kinds
from xeontrain_operator.kube.kinds import Kind

# The kubelet rotates a service account's token well before it ends: take the new one in good time.
_LOGIN_LIFETIME: Final = timedelta(minutes=10)


@kopf.on.startup(errors=kopf.ErrorsMode.PERMANENT)
async def start(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    """Configure kopf, fill the cache, start to work. `main` has made the runtime; `kopf run` has not."""
    configure(settings)
    quiet()
    if "runtime" not in memo:
        memo.runtime = await make_runtime(os.environ)
    await memo.runtime.start()


@kopf.on.cleanup()
async def stop(memo: kopf.Memo, **_: Any) -> None:
    """End what is in work and close all connections."""
    if "runtime" in memo:
        await memo.runtime.stop()


@kopf.on.login()
async def login(memo: kopf.Memo, **_: Any) -> kopf.ConnectionInfo:
    """The same access for kopf's watches as for our own calls."""
    runtime: Runtime = memo.runtime
    access = await config.credentials(runtime.configuration)
    return kopf.ConnectionInfo(
        server=access.server,
        ca_path=access.ca_path,
        insecure=access.insecure,
        scheme=access.scheme,
        token=access.token,
        certificate_path=access.certificate_path,
        private_key_path=access.private_key_path,
        expiration=datetime.now(UTC) + _LOGIN_LIFETIME,
    )


def quiet() -> None:
    """kopf would log each event that a watch brings and each probe: only warnings are kept of those."""
    for name in ("kopf.objects", "kopf.activities", "aiohttp.access"):
        logging.getLogger(name).setLevel(logging.WARNING)


def configure(settings: kopf.OperatorSettings) -> None:
    """kopf as a source of watch events and of nothing else.

    It posts no events and keeps no state in objects (all handlers are `on.event`). Streams that have died
    silently are noticed by its inactivity timeout, and ended by ours. The definition is awaited at
    start-up, so kopf need not watch all definitions and namespaces of the cluster, nor have the right to.
    """
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 310
    settings.watching.connect_timeout = 30
    settings.watching.reconnect_backoff = 1.0
    settings.watching.chunk_size = 500
    for kind in kinds.CHILDREN:
        settings.watching.label_selectors[_selector(kind)] = SELECTOR
    settings.networking.request_timeout = 60
    settings.networking.connect_timeout = 10
    settings.process.ultimate_exiting_timeout = 20
    settings.persistence.progress_storage = NoProgress()
    settings.persistence.diffbase_storage = NoDiffBase()


def _selector(kind: Kind) -> Any:
    return (kind.group, kind.version, kind.plural)
