"""The operator's constants, the trainer's constants and docs/contract.md say the same."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest
from xeontrain_operator import constants
from xeontrain_operator.api.v1alpha1 import XeonTrainJob, parse_job
from xeontrain_operator.builders.config_map import training_document
from xeontrain_operator.builders.env import build_env
from xeontrain_operator.settings import Settings
from xeontrain_trainer import contract

from tests.contract.cases.edits import TRAINING, edited
from tests.contract.document import TEXT, tables

HALVES = pytest.mark.parametrize("half", [constants, contract], ids=["operator", "trainer"])


def _names(module: ModuleType, prefix: str = "") -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if name.isupper() and name.startswith(prefix)}


def _column(section: str, column: str, *, table: int = 0) -> list[str]:
    return [row[column] for row in tables(section)[table]]


def test_trainer_has_no_name_of_its_own() -> None:
    """Each constant of the trainer's half is in the operator's, with the same value."""
    operators = _names(constants)
    assert {name: operators.get(name) for name in _names(contract)} == _names(contract)


@HALVES
def test_version(half: ModuleType) -> None:
    """The document names the version that both halves speak."""
    assert f"Contract version: `{half.CONTRACT_VERSION}`" in TEXT


@HALVES
def test_variables_for_the_launcher(half: ModuleType) -> None:
    """Every variable of the first table has its constant, and every constant stands in a table."""
    ours = [value for name, value in _names(half, "ENV_").items()]
    set_for_launcher = [value for value in ours if value not in half.OWNED_ENV]
    assert _column("Environment: set by the operator", "Name") == set_for_launcher


@HALVES
def test_variables_owned_by_the_launcher(half: ModuleType) -> None:
    """What the launcher sets in each rank is what a job's env may not set."""
    assert _column("Environment: owned by the launcher", "Name") == list(half.OWNED_ENV)


@HALVES
@pytest.mark.parametrize("section", ["Paths in the trainer container", "Ports"])
def test_named_values(half: ModuleType, section: str) -> None:
    """Paths and ports of the document are those of the constants."""
    documented = {row["Constant"]: row["Value"] for row in tables(section)[0]}
    assert {name: str(getattr(half, name)) for name in documented} == documented


@HALVES
def test_termination_bytes(half: ModuleType) -> None:
    """The document names the largest result document."""
    assert f"`TERMINATION_BYTES` is `{half.TERMINATION_BYTES}`" in TEXT


@HALVES
def test_exit_codes(half: ModuleType) -> None:
    """Codes are those of the table, and those that it calls user errors end a job at once."""
    rows = tables("Exit codes of a rank")[0]
    assert {row["Constant"]: int(row["Code"]) for row in rows} == _names(half, "EXIT_")
    user_errors = {int(row["Code"]) for row in rows if row["Counts as"].startswith("user error")}
    assert user_errors == set(half.USER_ERROR_EXITS)


def _job(**edits: Any) -> XeonTrainJob:
    return parse_job(edited(TRAINING, {"metadata.uid": "0f5c1a52-0000-4000-8000-000000000000", **edits}))


FULL = {"spec.storage": {"claim": "models"}, "spec.distributed": {"interface": "eth0"}}
# These two are set only by `xeontrain run` and for a set that is only to park.
NOT_IN_EVERY_POD = {constants.ENV_COORDINATOR_PORT, constants.ENV_PARK_ONLY}


def test_operator_sets_what_the_document_says() -> None:
    """The pod's environment holds every variable of the first table, and only known ones of ours."""
    names = {entry["name"] for entry in build_env(_job(**FULL), settings=Settings())}
    documented = set(_column("Environment: set by the operator", "Name"))
    assert documented - names == NOT_IN_EVERY_POD
    assert {name for name in names if name.startswith("XEONTRAIN_")} <= documented


def test_library_variables() -> None:
    """The second table's variables are in the pod, with the values that it gives."""
    job = _job()
    env = {entry["name"]: entry.get("value") for entry in build_env(job, settings=Settings())}
    meanings = {"distributed.ccl.provider": "tcp", "the job's UID": job.metadata.uid}
    for row in tables("Environment: set by the operator")[1]:
        assert env[row["Name"]] == meanings.get(row["Value"], row["Value"]), row


def test_training_document() -> None:
    """The training document has the keys of the contract, and all defaults filled in."""
    document = json.loads(json.dumps(training_document(_job())))
    assert list(document) == ["contract", "jobName", "jobNamespace", "jobUid", "training", "checkpoint"]
    assert document["contract"] == constants.CONTRACT_VERSION
    assert document["training"]["hyperparameters"]["batchSize"] == 16
    assert document["training"]["dataset"]["columns"]["label"] == "label"
