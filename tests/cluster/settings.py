"""Versions and folders of the test cluster; each can be set by an environment variable."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

DEFAULT_K8S_VERSION = "1.37.2"
ETCD_VERSION = "3.6.16"
HELM_VERSION = "4.3.1"
CONTAINERD_VERSION = "2.4.2"
COREDNS_VERSION = "1.15.0"

REPOSITORY = Path(__file__).resolve().parents[2]


def kubernetes_version(env: Mapping[str, str] = os.environ) -> str:
    """Returns the Kubernetes version of the cluster without the leading v (XEONTRAIN_K8S_VERSION)."""
    return env.get("XEONTRAIN_K8S_VERSION", "").removeprefix("v") or DEFAULT_K8S_VERSION


def cache_dir(env: Mapping[str, str] = os.environ) -> Path:
    """Returns the folder that binaries, images and logs are kept in between runs.

    XEONTRAIN_CACHE, or `xeontrain` under XDG_CACHE_HOME, or `~/.cache/xeontrain`.
    """
    if env.get("XEONTRAIN_CACHE"):
        return Path(env["XEONTRAIN_CACHE"]).expanduser().resolve()
    base = env.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "xeontrain"


def must_run_all(env: Mapping[str, str] = os.environ) -> bool:
    """True where a tier that cannot run is a failure and not a skip (CI=true, XEONTRAIN_REQUIRE_ALL=1)."""
    return env.get("CI", "").lower() in ("1", "true") or env.get("XEONTRAIN_REQUIRE_ALL") == "1"
