"""The client over the asyncio part of the official package: its configuration and REST call, dicts only."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.client.exceptions import ApiException

from xeontrain_operator import constants
from xeontrain_operator.kube import errors, kinds
from xeontrain_operator.kube.client import Page, PatchStyle, Propagation
from xeontrain_operator.kube.kinds import Kind, Object

CallObserver = Callable[[str, str, int], None]
"""Told of each call: verb, kind, HTTP status (0: no answer)."""

_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=10)
_ENDLESS = aiohttp.ClientTimeout(total=None, sock_connect=10)
_JSON = "application/json"
_APPLY = "application/apply-patch+yaml"
_PATCH: dict[PatchStyle, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


def _unobserved(_verb: str, _kind: str, _status: int) -> None:
    """The default observer."""


class AioKubeClient:
    """Keeps the `KubeClient` protocol. One per process: it holds a pool of connections."""

    def __init__(self, configuration: Configuration, *, on_call: CallObserver = _unobserved) -> None:
        self._api = ApiClient(configuration)
        self._api.user_agent = constants.FIELD_MANAGER
        self._on_call = on_call

    async def get(self, kind: Kind, *, namespace: str | None, name: str) -> Object:
        return await self._object("get", kind, kind.path(namespace=namespace, name=name), method="GET")

    async def pages(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = 500,
    ) -> AsyncIterator[Page]:
        query = {"limit": page_size, "labelSelector": label_selector, "fieldSelector": field_selector}
        path, more = kind.path(namespace=namespace), ""
        while True:
            answer = await self._object("list", kind, path, method="GET", query={**query, "continue": more})
            items = answer.get("items") or ()
            named = ({"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in items)
            metadata = answer.get("metadata") or {}
            yield Page(tuple(named), metadata.get("resourceVersion") or "")
            more = metadata.get("continue") or ""
            if not more:
                return

    async def apply(self, manifest: Object) -> Object:
        kind = kinds.of(manifest)
        return await self._object(
            "apply",
            kind,
            _path(kind, manifest),
            method="PATCH",
            query={"fieldManager": constants.FIELD_MANAGER, "force": "true"},
            body=manifest,
            content_type=_APPLY,
        )

    async def create(self, manifest: Object) -> Object:
        kind = kinds.of(manifest)
        return await self._object(
            "create",
            kind,
            kind.path(namespace=manifest["metadata"]["namespace"]),
            method="POST",
            query={"fieldManager": constants.FIELD_MANAGER},
            body=manifest,
        )

    async def delete(
        self,
        kind: Kind,
        *,
        namespace: str,
        name: str,
        uid: str,
        propagation: Propagation = "Background",
        grace_period_seconds: int | None = None,
    ) -> None:
        options: Object = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": propagation,
        }
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        path = kind.path(namespace=namespace, name=name)
        try:
            await self._request("delete", kind, path, method="DELETE", body=options)
        except errors.NotFound:
            return

    async def patch(
        self, kind: Kind, *, namespace: str, name: str, patch: Object, style: PatchStyle = "merge"
    ) -> Object:
        return await self._object(
            "patch",
            kind,
            kind.path(namespace=namespace, name=name),
            method="PATCH",
            query={"fieldManager": constants.FIELD_MANAGER},
            body=patch,
            content_type=_PATCH[style],
        )

    async def replace_status(self, job: Object, *, status: Object) -> Object:
        kind = kinds.of(job)
        identity = {key: job["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")}
        return await self._object(
            "status",
            kind,
            _path(kind, job, subresource="status"),
            method="PUT",
            query={"fieldManager": constants.FIELD_MANAGER},
            body={
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": identity,
                "spec": job.get("spec", {}),
                "status": status,
            },
        )

    async def pod_log(self, *, namespace: str, name: str, container: str, tail_bytes: int) -> str:
        # The end is had by lines, then cut as it comes: `limitBytes` counts from the first of them, and
        # would cut off the very end where lines are long.
        query = {"container": container, "tailLines": max(1, tail_bytes // 16)}
        tail = b""
        async for chunk in self._log(namespace, name, query, timeout=_TIMEOUT):
            tail = (tail + chunk)[-tail_bytes:]
        return tail.decode("utf-8", "replace")

    async def stream_log(
        self, *, namespace: str, name: str, container: str, tail_lines: int | None, follow: bool
    ) -> AsyncIterator[bytes]:
        """A container's log in pieces as they come; with `follow` until the container ends."""
        query = {
            "container": container,
            "follow": "true" if follow else "",
            "tailLines": "" if tail_lines is None else str(tail_lines),
        }
        async for chunk in self._log(namespace, name, query, timeout=_ENDLESS):
            yield chunk

    async def _log(
        self, namespace: str, name: str, query: Object, *, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[bytes]:
        path = kinds.POD.path(namespace=namespace, name=name, subresource="log")
        status = 0
        try:
            response = await self._call("GET", path, query, None, _JSON, timeout=timeout)
            status = response.status
            if status >= 300:
                raise errors.from_response(status=status, body=await response.read())
            async for chunk in response.response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError, ApiException) as error:
            raise errors.Transient(f"log {path}: {error or type(error).__name__}") from error
        finally:
            self._on_call("log", kinds.POD.kind, status)

    async def served(self, kind: Kind) -> bool:
        """Whether the API server serves this kind at this moment (its definition may come later than we)."""
        root = kind.path().rpartition("/")[0]
        try:
            group = await self._object("discover", kind, root, method="GET")
        except errors.NotFound:
            return False
        return any(resource["name"] == kind.plural for resource in group.get("resources") or ())

    async def close(self) -> None:
        await self._api.close()  # type: ignore[no-untyped-call]

    async def _object(self, verb: str, kind: Kind, path: str, **call: Any) -> Object:
        answer = json.loads(await self._request(verb, kind, path, **call))
        if not isinstance(answer, dict):
            raise errors.Transient(f"{verb} {path}: the answer is no object")
        return answer

    async def _request(
        self,
        verb: str,
        kind: Kind,
        path: str,
        *,
        method: str,
        query: Object | None = None,
        body: Object | None = None,
        content_type: str = _JSON,
    ) -> bytes:
        """One call, counted; raises the fitting KubeError for anything but success."""
        status = 0
        try:
            status, answer, retry_after = await self._send(method, path, query, body, content_type)
        except (aiohttp.ClientError, TimeoutError, OSError, ApiException) as error:
            raise errors.Transient(f"{verb} {path}: {error or type(error).__name__}") from error
        finally:
            self._on_call(verb, kind.kind, status)
        if status >= 300:
            raise errors.from_response(status=status, body=answer, retry_after=retry_after)
        return answer

    async def _send(
        self, method: str, path: str, query: Object | None, body: Object | None, content_type: str
    ) -> tuple[int, bytes, str | None]:
        response = await self._call(method, path, query, body, content_type, timeout=_TIMEOUT)
        answer: bytes = await response.read()
        return response.status, answer, response.headers.get("Retry-After")

    async def _call(
        self,
        method: str,
        path: str,
        query: Object | None,
        body: Object | None,
        content_type: str,
        *,
        timeout: aiohttp.ClientTimeout,
    ) -> Any:
        """The package's own response, its body still to be read."""
        method, url, headers, sent, post = await self._api.param_serialize(
            method=method,
            resource_path=path,
            query_params=[(key, value) for key, value in (query or {}).items() if value != ""],
            header_params={"Accept": _JSON, "Content-Type": content_type},
            body=body,
            auth_settings=["BearerToken"],
        )
        return await self._api.call_api(method, url, headers, sent, post, _request_timeout=timeout)


def _path(kind: Kind, manifest: Object, *, subresource: str = "") -> str:
    metadata = manifest["metadata"]
    return kind.path(namespace=metadata["namespace"], name=metadata["name"], subresource=subresource)
