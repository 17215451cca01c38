"""The client against a real API server: what each call does, and which error each refusal becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from xeontrain_operator import constants
from xeontrain_operator.kube import config, errors, kinds
from xeontrain_operator.kube.aio import AioKubeClient

from tests.operator.conftest import Calls

pytestmark = pytest.mark.cluster


def _config_map(namespace: str, name: str = "a", **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def _job(namespace: str, name: str = "job") -> dict[str, Any]:
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"resources": {"cpu": 1, "memory": "1Gi"}, "command": ["true"]},
    }


async def test_apply_is_ours_and_repeatable(client: AioKubeClient, namespace: str) -> None:
    """Server-side apply under our field manager; the second time nothing changes."""
    first = await client.apply(_config_map(namespace, key="1"))
    second = await client.apply(_config_map(namespace, key="1"))
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    managers = {(item["manager"], item["operation"]) for item in first["metadata"]["managedFields"]}
    assert managers == {(constants.FIELD_MANAGER, "Apply")}


async def test_create_never_overwrites(client: AioKubeClient, namespace: str) -> None:
    """A name that is taken is AlreadyExists, and the object stays as it was."""
    await client.create(_config_map(namespace, key="theirs"))
    with pytest.raises(errors.AlreadyExists):
        await client.create(_config_map(namespace, key="ours"))
    found = await client.get(kinds.CONFIG_MAP, namespace=namespace, name="a")
    assert found["data"] == {"key": "theirs"}


async def test_unknown_fields_survive(client: AioKubeClient, namespace: str) -> None:
    """Plain dicts: what the server knows and we do not is not lost on the way."""
    made = await client.create(_config_map(namespace, key="1"))
    assert made["metadata"]["managedFields"]
    assert made["kind"] == "ConfigMap"


@pytest.mark.parametrize("page_size", [2, 500])
async def test_pages_are_one_moment(client: AioKubeClient, namespace: str, page_size: int) -> None:
    """All items come, with their kind, and all pages show the same resourceVersion."""
    for number in range(5):
        await client.create(_config_map(namespace, name=f"m{number}"))
    found, moments = [], set()
    async for page in client.pages(kinds.CONFIG_MAP, namespace=namespace, page_size=page_size):
        found += [item["metadata"]["name"] for item in page.items if item["kind"] == "ConfigMap"]
        moments.add(page.resource_version)
    assert set(found) >= {f"m{number}" for number in range(5)}
    assert len(moments) == 1


async def test_selectors_are_the_servers(client: AioKubeClient, namespace: str) -> None:
    """Labels and fields are filtered by the API server."""
    labelled = _config_map(namespace, name="labelled")
    labelled["metadata"]["labels"] = {"x": "y"}
    await client.create(labelled)
    await client.create(_config_map(namespace, name="plain"))

    async def names(**selectors: str) -> list[str]:
        pages = client.pages(kinds.CONFIG_MAP, namespace=namespace, **selectors)
        return [item["metadata"]["name"] async for page in pages for item in page.items]

    assert await names(label_selector="x=y") == ["labelled"]
    assert await names(field_selector="metadata.name=plain") == ["plain"]


async def test_delete_hits_only_the_object_that_was_meant(client: AioKubeClient, namespace: str) -> None:
    """Another UID is a Conflict and nothing is deleted; an absent object is as good as deleted."""
    made = await client.create(_config_map(namespace))
    with pytest.raises(errors.Conflict):
        await client.delete(kinds.CONFIG_MAP, namespace=namespace, name="a", uid="another")
    await client.delete(kinds.CONFIG_MAP, namespace=namespace, name="a", uid=made["metadata"]["uid"])
    with pytest.raises(errors.NotFound):
        await client.get(kinds.CONFIG_MAP, namespace=namespace, name="a")
    await client.delete(kinds.CONFIG_MAP, namespace=namespace, name="a", uid=made["metadata"]["uid"])


async def test_patch_of_a_stale_object_is_a_conflict(client: AioKubeClient, namespace: str) -> None:
    """With the resourceVersion inside, a patch applies to what was read or not at all."""
    made = await client.create(_config_map(namespace, key="1"))
    version = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}
    await client.patch(
        kinds.CONFIG_MAP, namespace=namespace, name="a", patch={**version, "data": {"key": "2"}}
    )
    with pytest.raises(errors.Conflict):
        await client.patch(
            kinds.CONFIG_MAP, namespace=namespace, name="a", patch={**version, "data": {"key": "3"}}
        )


async def test_status_is_replaced_whole_and_never_blindly(client: AioKubeClient, namespace: str) -> None:
    """What the new status leaves out is gone, the spec is untouched, and a stale copy is a Conflict."""
    job = await client.create(_job(namespace))
    first = await client.replace_status(job, status={"phase": "Pending", "observedGeneration": 1})
    assert first["spec"] == job["spec"]
    second = await client.replace_status(first, status={"phase": "Starting"})
    assert second["status"] == {"phase": "Starting"}
    with pytest.raises(errors.Conflict):
        await client.replace_status(first, status={"phase": "Failed"})


async def test_refusal_carries_the_servers_words(client: AioKubeClient, namespace: str) -> None:
    """An invalid object names its field."""
    broken = _config_map(namespace, name="Not a name")
    with pytest.raises(errors.Invalid, match=r"metadata\.name"):
        await client.create(broken)


async def test_missing_namespace(client: AioKubeClient) -> None:
    """An object for a namespace that is not there is NotFound."""
    with pytest.raises(errors.NotFound):
        await client.create(_config_map("no-such-namespace"))


async def test_served(client: AioKubeClient) -> None:
    """Whether the API server knows a kind."""
    assert await client.served(kinds.JOB)
    assert not await client.served(kinds.Kind("xeontrain.dev", "v1alpha1", "No", "noes"))
    assert not await client.served(kinds.Kind("nobody.example", "v1", "No", "noes"))


async def test_calls_are_counted(client: AioKubeClient, calls: Calls, namespace: str) -> None:
    """Each call with its verb, kind and answer: what the metrics show."""
    await client.create(_config_map(namespace))
    with pytest.raises(errors.NotFound):
        await client.get(kinds.SERVICE, namespace=namespace, name="none")
    assert calls == [("create", "ConfigMap", 201), ("get", "Service", 404)]


async def test_no_server_is_transient(tmp_path: Path) -> None:
    """Nobody at the address: to be tried again, and counted as unanswered."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        """{"apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "x", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}"""
    )
    seen: Calls = []
    configuration = await config.load(in_cluster=False, kubeconfig=kubeconfig)
    client = AioKubeClient(configuration, on_call=lambda *call: seen.append(call))
    with pytest.raises(errors.Transient):
        await client.get(kinds.POD, namespace="a", name="b")
    await client.close()
    assert seen == [("get", "Pod", 0)]
