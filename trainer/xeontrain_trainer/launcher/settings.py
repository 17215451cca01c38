"""The launcher's settings: the contract's environment, read once and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional


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
        raise NotImplementedError
