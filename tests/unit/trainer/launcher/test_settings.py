"""The contract's environment is read whole, and a mistake in it is named."""

from __future__ import annotations

import re

import pytest
from xeontrain_trainer import contract
from xeontrain_trainer.launcher.settings import Settings, SettingsError

MINIMAL = {
    contract.ENV_CONTRACT_VERSION: "1",
    contract.ENV_JOB_NAME: "mail-filter",
    contract.ENV_JOB_UID: "uid-1",
    contract.ENV_POD_NAME: "mail-filter-1",
    contract.ENV_POD_UID: "pod-1",
    contract.ENV_POD_IP: "10.0.0.7",
    contract.ENV_WORKER: "1",
    contract.ENV_WORKERS: "2",
    contract.ENV_COORDINATOR: "mail-filter-0.mail-filter.default.svc.cluster.local.",
}


def test_defaults() -> None:
    settings = Settings.from_environ(MINIMAL)
    assert (settings.worker, settings.workers) == (1, 2)
    assert settings.ranks_per_worker is None
    assert settings.global_batch_size is None
    assert settings.launcher_port == settings.coordinator_port == 29400
    assert settings.master_port == 29500
    assert settings.state_dir == "/run/xeontrain"
    assert settings.job_dir is None
    assert settings.training_file is None
    assert settings.termination_bytes == 4096
    assert settings.pinning == "Preferred"
    assert settings.backend == "Auto"
    assert not settings.park_only


def test_everything_set() -> None:
    """Each variable of the contract's first table arrives in a field of its own."""
    values = {
        **MINIMAL,
        contract.ENV_JOB_NAMESPACE: "team-a",
        contract.ENV_NODE_NAME: "node-a",
        contract.ENV_RANKS_PER_WORKER: "4",
        contract.ENV_GLOBAL_BATCH_SIZE: "64",
        contract.ENV_COORDINATOR_PORT: "29401",
        contract.ENV_LAUNCHER_PORT: "29402",
        contract.ENV_MASTER_PORT: "30000",
        contract.ENV_RENDEZVOUS_TIMEOUT_SECONDS: "60",
        contract.ENV_BACKEND: "Gloo",
        contract.ENV_INTERFACE: "eth1",
        contract.ENV_CCL_WORKERS_PER_RANK: "2",
        contract.ENV_CPU_LIMIT_MILLIS: "8000",
        contract.ENV_PINNING: "Required",
        contract.ENV_BACKOFF_LIMIT: "0",
        contract.ENV_FAILURES_COUNTED: "2",
        contract.ENV_GRACE_PERIOD_SECONDS: "30",
        contract.ENV_STATE_DIR: "/state",
        contract.ENV_JOB_DIR: "/jobs/a",
        contract.ENV_TRAINING_FILE: "/t.json",
        contract.ENV_TERMINATION_LOG: "/log",
        contract.ENV_TERMINATION_BYTES: "3072",
        contract.ENV_PARK_ONLY: "1",
    }
    settings = Settings.from_environ(values)
    fields = [field for field in vars(settings).values() if field is not None]
    assert len(fields) == len(vars(settings)) == len(values)
    assert settings.ranks_per_worker == 4
    assert settings.cpu_limit_millis == 8000
    assert settings.backoff_limit == 0
    assert (settings.coordinator_port, settings.launcher_port) == (29401, 29402)
    assert settings.park_only


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        pytest.param(contract.ENV_JOB_UID, None, "is not set", id="missing"),
        pytest.param(contract.ENV_JOB_UID, "  ", "is not set", id="blank"),
        pytest.param(contract.ENV_WORKER, "2", "from 0 to 1", id="worker-outside"),
        pytest.param(contract.ENV_WORKERS, "two", "whole number", id="not-a-number"),
        pytest.param(contract.ENV_WORKERS, "²", "whole number", id="not-an-ascii-digit"),
        pytest.param(contract.ENV_RANKS_PER_WORKER, "0", "or Auto", id="no-ranks"),
        pytest.param(contract.ENV_RANKS_PER_WORKER, "65", "from 1 to 64, or Auto", id="too-many-ranks"),
        pytest.param(contract.ENV_LAUNCHER_PORT, "70000", "from 1 to 65535", id="port"),
        pytest.param(contract.ENV_PINNING, "required", "Required, Preferred, Disabled", id="case"),
        pytest.param(contract.ENV_BACKEND, "MPI", "Auto, Gloo, CCL", id="backend"),
        pytest.param(contract.ENV_CPU_LIMIT_MILLIS, "8.0", "whole number", id="fraction"),
        pytest.param(contract.ENV_TERMINATION_BYTES, "10", "512 or more", id="no-room"),
        pytest.param(contract.ENV_CONTRACT_VERSION, "2", "this image understands 1", id="other-contract"),
    ],
)
def test_mistakes_name_the_variable(name: str, value: str | None, sentence: str) -> None:
    values = {key: text for key, text in MINIMAL.items() if key != name}
    if value is not None:
        values[name] = value
    with pytest.raises(SettingsError, match=re.escape(sentence)) as raised:
        Settings.from_environ(values)
    assert name in str(raised.value)
