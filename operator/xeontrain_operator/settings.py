"""What the platform team decides once for all jobs: read at the operator's start, then frozen.

The chart mounts its values as one YAML file; its keys are the camelCase names of the fields below.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

ENV_SETTINGS_FILE: Final = "XEONTRAIN_SETTINGS_FILE"
ENV_NAMESPACE: Final = "XEONTRAIN_OPERATOR_NAMESPACE"
ENV_TRAINER_IMAGE: Final = "XEONTRAIN_OPERATOR_TRAINER_IMAGE"


class SettingsError(ValueError):
    """The settings file cannot be read or a value in it cannot be used: the operator does not start."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class NodePool(_Frozen):
    """Nodes that a job may name by `spec.nodePool`."""

    node_selector: Mapping[str, str] = Field(default_factory=dict)
    """Labels that all nodes of the pool have."""
    tolerations: tuple[Mapping[str, Any], ...] = ()
    """core/v1 Tolerations of the pool's taints."""
    price_per_hour: float | None = Field(default=None, ge=0)
    """Price of one node an hour, in `currency`."""
    cpus_per_node: int | None = Field(default=None, ge=1)
    """CPUs that this price buys; without it no cost is shown."""


class Polling(_Frozen):
    """How often worker 0 of a running job is asked for its progress."""

    min_interval_seconds: float = Field(default=5.0, gt=0)
    max_questions_per_second: float = Field(default=20.0, gt=0)
    """Over all jobs: with J running jobs each is asked every max(min_interval, J / this) seconds."""
    timeout_seconds: float = Field(default=3.0, gt=0)
    max_bytes: int = Field(default=1 << 20, ge=1024)
    """A longer answer is refused."""

    def interval_seconds(self, *, running_jobs: int) -> float:
        """Seconds between two questions to one job's worker 0."""
        return max(self.min_interval_seconds, running_jobs / self.max_questions_per_second)


class NetworkPolicySettings(_Frozen):
    """Who besides the job's own pods and the operator may reach a launcher's port."""

    enabled: bool = True
    metrics_from: tuple[Mapping[str, Any], ...] = ()
    """networking.k8s.io/v1 NetworkPolicyPeers, such as Prometheus' namespace."""


class Settings(_Frozen):
    """All that the operator does not learn from the API server."""

    trainer_image: str = "xeontrain-trainer:0.1.0"
    """Image of a job that names none; resolved once, when the job's StatefulSet is made."""
    trainer_image_pull_policy: str | None = Field(default=None, pattern="^(Always|IfNotPresent|Never)$")
    """Pull policy of the default image; None: Kubernetes' own rule. A job's own value wins."""
    trainer_image_pull_secrets: tuple[str, ...] = ()
    """Names of Secrets, in the jobs' namespaces, added to each pod."""
    launcher_image: str = "xeontrain-operator:0.1.0"
    """The operator's own image, from which an image of a user's own gets the launcher."""
    launcher_image_pull_policy: str | None = Field(default=None, pattern="^(Always|IfNotPresent|Never)$")
    """Its pull policy in the pods of jobs; None: Kubernetes' own rule."""
    node_pools: Mapping[str, NodePool] = Field(default_factory=dict)
    currency: str = "USD"
    cluster_domain: str = "cluster.local"
    namespace: str = "xeontrain-system"
    """The operator's own namespace."""
    pod_labels: Mapping[str, str] = Field(default_factory=lambda: {"app.kubernetes.io/name": "xeontrain"})
    """Labels of the operator's pod, by which the jobs' NetworkPolicies let it in."""
    watch_namespaces: tuple[str, ...] = ()
    """Namespaces whose jobs are served; empty: all."""
    network_policy: NetworkPolicySettings = NetworkPolicySettings()
    polling: Polling = Polling()
    concurrent_reconciles: int = Field(default=8, ge=1, le=64)
    resync_seconds: float = Field(default=300.0, ge=10)
    """Seconds between two full LISTs of all kinds (a watch can miss a deletion)."""
    probe_port: int = Field(default=8080, ge=1, le=65535)
    """`/healthz` of the operator."""
    metrics_port: int = Field(default=8081, ge=1, le=65535)
    """`/metrics` of the operator."""


def load_settings(environ: Mapping[str, str]) -> Settings:
    """Settings from the file that `XEONTRAIN_SETTINGS_FILE` names (YAML or JSON), if any, under those
    of the environment (`XEONTRAIN_OPERATOR_NAMESPACE`, `XEONTRAIN_OPERATOR_TRAINER_IMAGE`).

    Raises `SettingsError`, naming file, key and cause.
    """
    source = environ.get(ENV_SETTINGS_FILE, "")
    values = _read(Path(source)) if source else {}
    for env, key in ((ENV_NAMESPACE, "namespace"), (ENV_TRAINER_IMAGE, "trainerImage")):
        if environ.get(env):
            values[key] = environ[env]
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise SettingsError(f"{source or 'environment'}: {_in_words(error)}") from error


def _read(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"{path}: cannot be read as YAML: {error}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise SettingsError(f"{path}: must be a mapping of settings, not a {type(values).__name__}")
    return values


def _in_words(error: ValidationError) -> str:
    parts = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
    return "; ".join(parts)
