"""Access to the API server from a kubeconfig, or the sentence that says why there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from xeontrain_operator.kube import config

KUBECONFIG = """{"apiVersion": "v1", "kind": "Config", "current-context": "x",
"clusters": [{"name": "x", "cluster": {"server": "https://example.invalid:6443"}}],
"users": [{"name": "x", "user": {"token": "secret"}}],
"contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}"""


async def test_credentials_for_other_clients(tmp_path: Path) -> None:
    """kopf gets the same server and token as our own client."""
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    access = await config.credentials(await config.load(in_cluster=False, kubeconfig=tmp_path / "kubeconfig"))
    assert access.server == "https://example.invalid:6443"
    assert (access.scheme, access.token) == ("Bearer", "secret")
    assert not access.insecure


@pytest.mark.parametrize(
    "content",
    [pytest.param(None, id="no file"), pytest.param("{}", id="empty"), pytest.param(":", id="not YAML")],
)
async def test_no_access_says_what_to_do(tmp_path: Path, content: str | None) -> None:
    """The error names the cause and the remedy."""
    kubeconfig = tmp_path / "kubeconfig"
    if content is not None:
        kubeconfig.write_text(content)
    with pytest.raises(config.ConfigurationError, match="KUBECONFIG"):
        await config.load(in_cluster=False, kubeconfig=kubeconfig)
