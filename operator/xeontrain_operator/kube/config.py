"""Where the API server is and who we are: in a pod its service account, elsewhere a kubeconfig."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import (
    ConfigException,
    list_kube_config_contexts,
    load_incluster_config,
    load_kube_config,
)
from kubernetes.aio.config.incluster_config import SERVICE_HOST_ENV_NAME

__all__ = [
    "SERVICE_HOST_ENV_NAME",
    "Configuration",
    "ConfigurationError",
    "Credentials",
    "credentials",
    "default_namespace",
    "load",
]


class ConfigurationError(Exception):
    """Neither a service account nor a kubeconfig leads to an API server."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The same access in the words that other HTTP clients want."""

    server: str
    ca_path: str | None
    insecure: bool
    scheme: str | None
    token: str | None
    certificate_path: str | None
    private_key_path: str | None


async def load(*, in_cluster: bool, kubeconfig: Path | None = None) -> Configuration:
    """The client configuration; in a cluster the token is read again each minute, as the kubelet rotates it.

    Raises ConfigurationError naming both places that were looked at.
    """
    configuration = Configuration()
    try:
        if in_cluster:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            await load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(kubeconfig) if kubeconfig else None,
                client_configuration=configuration,
                persist_config=False,
            )
    except (ConfigException, OSError, yaml.YAMLError, ValueError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"no access to a Kubernetes API server: {error}; run in a pod with a service account, or set"
            " KUBECONFIG to a readable file"
        ) from error
    configuration.connection_pool_maxsize = 32
    # As kopf's own watches do: straight to the server. Looking for proxies and passwords in the environment
    # would also cost a thread's turn and a file for each call.
    configuration.client_session_kwargs = {"trust_env": False}
    return configuration


def default_namespace() -> str:
    """The namespace of the kubeconfig's current context, as kubectl takes it."""
    try:
        _, active = list_kube_config_contexts()  # type: ignore[no-untyped-call]
    except (ConfigException, OSError, yaml.YAMLError, ValueError, TypeError, AttributeError):
        return "default"
    return str((active.get("context") or {}).get("namespace") or "default")


async def credentials(configuration: Configuration) -> Credentials:
    """The access of `configuration`, with the token as it is at this moment."""
    header = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    scheme, _, token = (header or "").rpartition(" ")
    return Credentials(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        scheme=scheme or None,
        token=token or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
    )
