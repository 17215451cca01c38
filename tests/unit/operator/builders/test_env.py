"""The container's environment: the contract's names, the user's wishes, no name twice."""

from __future__ import annotations

from typing import Any

import pytest
from xeontrain_operator import constants as c
from xeontrain_operator.builders.env import build_env

from tests.unit.operator.sample import SETTINGS, UID, job

IDENTITY = {
    "XEONTRAIN_CONTRACT_VERSION": "1",
    "XEONTRAIN_JOB_NAME": "mail",
    "XEONTRAIN_JOB_NAMESPACE": "team",
    "XEONTRAIN_JOB_UID": UID,
    "XEONTRAIN_POD_NAME": "metadata.name",
    "XEONTRAIN_POD_UID": "metadata.uid",
    "XEONTRAIN_POD_IP": "status.podIP",
    "XEONTRAIN_NODE_NAME": "spec.nodeName",
    "XEONTRAIN_WORKER": "metadata.labels['apps.kubernetes.io/pod-index']",
}
GANG = {
    "XEONTRAIN_WORKERS": "2",
    "XEONTRAIN_RANKS_PER_WORKER": "Auto",
    "XEONTRAIN_COORDINATOR": "mail-0.mail.team.svc.cluster.local.",
    "XEONTRAIN_LAUNCHER_PORT": "29400",
    "XEONTRAIN_MASTER_PORT": "29500",
    "XEONTRAIN_RENDEZVOUS_TIMEOUT_SECONDS": "600",
    "XEONTRAIN_BACKEND": "Auto",
    "XEONTRAIN_CCL_WORKERS_PER_RANK": "Auto",
    "XEONTRAIN_CPU_LIMIT_MILLIS": "limits.cpu/1m",
    "XEONTRAIN_PINNING": "Preferred",
    "XEONTRAIN_BACKOFF_LIMIT": "3",
    "XEONTRAIN_FAILURES_COUNTED": "2",
    "XEONTRAIN_GRACE_PERIOD_SECONDS": "120",
}
PATHS = {
    "XEONTRAIN_STATE_DIR": "/run/xeontrain",
    "XEONTRAIN_TERMINATION_LOG": "/dev/termination-log",
    "XEONTRAIN_TERMINATION_BYTES": "4096",
    "HOME": "/tmp",
}
LIBRARIES = {
    "CCL_PROCESS_LAUNCHER": "none",
    "CCL_ATL_TRANSPORT": "ofi",
    "FI_PROVIDER": "tcp",
    "TORCHELASTIC_RUN_ID": UID,
    "TOKENIZERS_PARALLELISM": "false",
    "ACCELERATE_USE_CPU": "true",
    "PYTHONUNBUFFERED": "1",
}
TRAINING = {
    "XEONTRAIN_GLOBAL_BATCH_SIZE": "16",
    "XEONTRAIN_TRAINING_FILE": "/etc/xeontrain/training.json",
}
STORAGE = {"XEONTRAIN_JOB_DIR": f"/var/lib/xeontrain/mail-{UID[:8]}"}


def _flat(env: list[dict[str, Any]]) -> dict[str, str]:
    return {item["name"]: item.get("value") or _source(item["valueFrom"]) for item in env}


def _source(value_from: dict[str, Any]) -> str:
    if "fieldRef" in value_from:
        return str(value_from["fieldRef"]["fieldPath"])
    reference = value_from["resourceFieldRef"]
    return f"{reference['resource']}/{reference['divisor']}"


def test_environment_of_a_training_job() -> None:
    """All of it, exactly."""
    env = build_env(job(), settings=SETTINGS, failures_counted=2)
    assert _flat(env) == IDENTITY | GANG | PATHS | LIBRARIES | TRAINING | STORAGE


def test_environment_of_a_command_without_storage() -> None:
    """No training document, no batch, no folder: such variables are unset, not empty."""
    env = build_env(job(spec={"command": ["true"], "storage": None}), settings=SETTINGS, failures_counted=2)
    assert _flat(env) == IDENTITY | GANG | PATHS | LIBRARIES


@pytest.mark.parametrize(
    ("spec", "name", "value"),
    [
        ({"ranksPerWorker": 2}, c.ENV_RANKS_PER_WORKER, "2"),
        ({"distributed": {"interface": "eth1"}}, c.ENV_INTERFACE, "eth1"),
        ({"distributed": {"port": 30000}}, c.ENV_MASTER_PORT, "30000"),
        ({"distributed": {"ccl": {"provider": "psm3"}}}, "FI_PROVIDER", "psm3"),
        ({"podTemplate": {"containers": [{"name": n} for n in "abc"]}}, c.ENV_TERMINATION_BYTES, "3072"),
        ({"env": [{"name": "HOME", "value": "/home/me"}]}, "HOME", "/home/me"),
        ({"env": [{"name": "FI_PROVIDER", "value": "efa"}]}, "FI_PROVIDER", "efa"),
    ],
    ids=[
        "ranks",
        "interface",
        "port",
        "provider",
        "four-containers-share-12-KiB",
        "users-home-wins",
        "users-library-setting-wins",
    ],
)
def test_fields_that_show_in_the_environment(spec: dict[str, Any], name: str, value: str) -> None:
    """Each such field changes its variable, which stands once."""
    env = build_env(job(spec=spec), settings=SETTINGS)
    assert [item["value"] for item in env if item["name"] == name] == [value]


def test_users_variables_come_last_and_whole() -> None:
    """A variable of the user's may refer to one of ours, and keeps its source."""
    secret = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
    mine = {"name": "RUN", "value": "$(XEONTRAIN_JOB_NAME)"}
    env = build_env(job(spec={"env": [secret, mine]}), settings=SETTINGS)
    assert env[-2:] == [secret, mine]
