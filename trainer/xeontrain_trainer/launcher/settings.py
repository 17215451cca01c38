"""The launcher's settings: the contract's environment, read once and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

from .. import contract

PINNINGS = ("Required", "Preferred", "Disabled")
BACKENDS = ("Auto", "Gloo", "CCL")
MAX_PORT = 65535


class SettingsError(Exception):
    """A variable of the contract is missing or has a value that cannot be used; the text names it."""


@dataclass(frozen=True)
class Settings:
    """docs/contract.md, `Environment: set by the operator`. None: Auto, or unset."""

    contract_version: int
    job_name: str
    job_namespace: str
    job_uid: str
    pod_name: str
    pod_uid: str
    pod_ip: str
    node_name: str
    worker: int
    workers: int
    ranks_per_worker: Optional[int]
    global_batch_size: Optional[int]
    coordinator: str
    coordinator_port: int
    launcher_port: int
    master_port: int
    rendezvous_timeout_seconds: int
    backend: str
    interface: Optional[str]
    ccl_workers_per_rank: Optional[int]
    cpu_limit_millis: Optional[int]
    pinning: str
    backoff_limit: int
    failures_counted: int
    grace_period_seconds: int
    state_dir: str
    job_dir: Optional[str]
    training_file: Optional[str]
    termination_log: str
    termination_bytes: int
    park_only: bool

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """Raises SettingsError that names the variable, its value and what it may be."""
        read = _Reader(environ)
        workers = read.integer(contract.ENV_WORKERS, low=1, high=512)
        launcher_port = read.port(contract.ENV_LAUNCHER_PORT, default=contract.LAUNCHER_PORT)
        return cls(
            contract_version=read.contract_version(),
            job_name=read.text(contract.ENV_JOB_NAME),
            job_namespace=read.text(contract.ENV_JOB_NAMESPACE, default="default"),
            job_uid=read.text(contract.ENV_JOB_UID),
            pod_name=read.text(contract.ENV_POD_NAME),
            pod_uid=read.text(contract.ENV_POD_UID),
            pod_ip=read.text(contract.ENV_POD_IP),
            node_name=read.text(contract.ENV_NODE_NAME, default=""),
            worker=read.integer(contract.ENV_WORKER, low=0, high=workers - 1),
            workers=workers,
            ranks_per_worker=read.auto(contract.ENV_RANKS_PER_WORKER, high=64),
            global_batch_size=read.optional_integer(contract.ENV_GLOBAL_BATCH_SIZE),
            coordinator=read.text(contract.ENV_COORDINATOR),
            coordinator_port=read.port(contract.ENV_COORDINATOR_PORT, default=launcher_port),
            launcher_port=launcher_port,
            master_port=read.port(contract.ENV_MASTER_PORT, default=contract.MASTER_PORT),
            rendezvous_timeout_seconds=read.integer(
                contract.ENV_RENDEZVOUS_TIMEOUT_SECONDS, default=600, low=1
            ),
            backend=read.choice(contract.ENV_BACKEND, BACKENDS, default="Auto"),
            interface=read.optional_text(contract.ENV_INTERFACE),
            ccl_workers_per_rank=read.auto(contract.ENV_CCL_WORKERS_PER_RANK),
            cpu_limit_millis=read.optional_integer(contract.ENV_CPU_LIMIT_MILLIS),
            pinning=read.choice(contract.ENV_PINNING, PINNINGS, default="Preferred"),
            backoff_limit=read.integer(contract.ENV_BACKOFF_LIMIT, default=3),
            failures_counted=read.integer(contract.ENV_FAILURES_COUNTED, default=0),
            grace_period_seconds=read.integer(contract.ENV_GRACE_PERIOD_SECONDS, default=120),
            state_dir=read.text(contract.ENV_STATE_DIR, default=contract.STATE_DIR),
            job_dir=read.optional_text(contract.ENV_JOB_DIR),
            training_file=read.optional_text(contract.ENV_TRAINING_FILE),
            termination_log=read.text(contract.ENV_TERMINATION_LOG, default=contract.TERMINATION_LOG),
            termination_bytes=read.integer(
                contract.ENV_TERMINATION_BYTES, default=contract.TERMINATION_BYTES, low=512
            ),
            park_only=read.optional_text(contract.ENV_PARK_ONLY) == "1",
        )


class _Reader:
    """Typed look-ups in the environment. A variable that is set but blank counts as unset."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def optional_text(self, name: str) -> Optional[str]:
        return self._environ.get(name, "").strip() or None

    def text(self, name: str, *, default: Optional[str] = None) -> str:
        value = self.optional_text(name) or default
        if value is None:
            raise SettingsError(f"{name} is not set: the operator or `xeontrain run` sets it")
        return value

    def choice(self, name: str, allowed: tuple[str, ...], *, default: str) -> str:
        value = self.text(name, default=default)
        if value not in allowed:
            raise SettingsError(f"{name}={value!r} must be one of {', '.join(allowed)}")
        return value

    def integer(
        self, name: str, *, default: Optional[int] = None, low: int = 0, high: Optional[int] = None
    ) -> int:
        text = self.text(name, default=None if default is None else str(default))
        value = int(text) if text.isascii() and text.isdigit() else -1
        if value < low or (high is not None and value > high):
            bounds = f"from {low} to {high}" if high is not None else f"of {low} or more"
            raise SettingsError(f"{name}={text!r} must be a whole number {bounds}")
        return value

    def optional_integer(self, name: str) -> Optional[int]:
        """None where unset; 0 is refused, since it stands for nothing that a job can ask for."""
        return None if self.optional_text(name) is None else self.integer(name, low=1)

    def auto(self, name: str, *, high: int = MAX_PORT) -> Optional[int]:
        """None for Auto or unset."""
        if self.text(name, default="Auto") == "Auto":
            return None
        try:
            return self.integer(name, low=1, high=high)
        except SettingsError as error:
            raise SettingsError(f"{error}, or Auto") from None

    def port(self, name: str, *, default: int) -> int:
        return self.integer(name, default=default, low=1, high=MAX_PORT)

    def contract_version(self) -> int:
        version = self.integer(contract.ENV_CONTRACT_VERSION, low=1)
        if version != contract.CONTRACT_VERSION:
            raise SettingsError(
                f"{contract.ENV_CONTRACT_VERSION}={version}, but this image understands "
                f"{contract.CONTRACT_VERSION}: use the trainer image that belongs to the operator's version"
            )
        return version
