"""What the operator needs of the Kubernetes API, as a protocol; `kube.aio` keeps it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, NamedTuple, Protocol

from xeontrain_operator.kube.kinds import Kind, Object

Propagation = Literal["Background", "Foreground", "Orphan"]
PatchStyle = Literal["merge", "strategic"]


class Page(NamedTuple):
    """A part of a LIST."""

    items: tuple[Object, ...]
    """With their `apiVersion` and `kind`, which lists leave out."""
    resource_version: str
    """The moment that the whole LIST shows; the same on all its pages."""


class KubeClient(Protocol):
    """Plain dicts in and out. Every method raises a `kube.errors.KubeError` of the fitting class."""

    async def get(self, kind: Kind, *, namespace: str | None, name: str) -> Object:
        """The object as the API server has it now, not as a cache remembers it.

        `namespace` is None for kinds that have none.
        """

    def pages(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = 500,
    ) -> AsyncIterator[Page]:
        """All objects, page by page, as of one moment; `namespace` None means all namespaces.

        Raises Expired where the pages took longer than the server keeps them: start again.
        """

    async def apply(self, manifest: Object) -> Object:
        """Server-side apply under the operator's field manager, taking fields from other managers."""

    async def create(self, manifest: Object) -> Object:
        """Raises AlreadyExists where an object of that name is there."""

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
        """Delete that very object; silent where it is gone.

        Raises Conflict where the name now belongs to another object: a decision about the old one never
        hits the new.
        """

    async def patch(
        self, kind: Kind, *, namespace: str, name: str, patch: Object, style: PatchStyle = "merge"
    ) -> Object:
        """Change the fields in `patch`. With `metadata.resourceVersion` in it, raises Conflict if stale.

        Style `strategic` merges lists of built-in kinds by their keys (containers by name), `merge`
        replaces them.
        """

    async def replace_status(self, job: Object, *, status: Object) -> Object:
        """Write the whole status of `job`, as read with its resourceVersion. Raises Conflict if stale."""

    async def pod_log(self, *, namespace: str, name: str, container: str, tail_bytes: int) -> str:
        """The end of a container's log, decoded with replacement of what is not UTF-8."""

    async def close(self) -> None:
        """Close the connections. Idempotent."""
