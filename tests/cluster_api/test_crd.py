"""A real API server takes the CRD, and judges every case of the table as `xeontrain validate` does."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest
from xeontrain_operator.api.crd import CRD_NAME, PRINTER_COLUMNS, crd_yaml
from xeontrain_operator.constants import API_VERSION, PLURAL

from tests.cluster_api.rest import Answer, Rest
from tests.contract.cases.changes import CHANGES, Change
from tests.contract.cases.creation import CASES, Case

pytestmark = pytest.mark.cluster

READY_SECONDS = 60
NAMESPACE = "crd-creation"
DRY_RUN = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/{PLURAL}?dryRun=All&fieldValidation=Strict"


@pytest.fixture(scope="module")
def rest(control_plane: Any) -> Rest:
    """A client of the control plane, with the CRD applied and served."""
    control_plane.kubectl("apply", "--server-side", "-f", "-", input=crd_yaml())
    client = Rest(control_plane.kubeconfig)
    deadline = time.monotonic() + READY_SECONDS
    while not client.request("GET", f"/apis/{API_VERSION}/namespaces/default/{PLURAL}").taken:
        assert time.monotonic() < deadline, "the API server does not serve the resource"
        time.sleep(0.2)
    client.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    return client


@pytest.fixture
def jobs(rest: Rest) -> Iterator[str]:
    """Path of the jobs of a namespace of this test's own."""
    name = f"crd-{next(_numbers)}"
    rest.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield f"/apis/{API_VERSION}/namespaces/{name}/{PLURAL}"
    rest.request("DELETE", f"/api/v1/namespaces/{name}")


_numbers = itertools.count()


def _problem_paths(answer: Answer) -> list[str]:
    causes = answer.body.get("details", {}).get("causes", [])
    return [cause.get("field", "") for cause in causes] + [answer.body.get("message", "")]


def test_crd_is_established_and_structural(rest: Rest) -> None:
    """The CRD has no condition that calls its schema non-structural."""
    answer = rest.request("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD_NAME}")
    conditions = {c["type"]: c["status"] for c in answer.body["status"]["conditions"]}
    assert conditions.get("Established") == "True"
    assert "NonStructuralSchema" not in conditions


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_creation(rest: Rest, case: Case) -> None:
    """The API server's verdict is the table's, and its answer names the field and the rule's words."""
    answer = rest.request("POST", DRY_RUN, case.document)
    assert answer.taken == (case.refused_at is None), answer.message
    if case.refused_at is not None:
        assert any(case.refused_at in place for place in _problem_paths(answer)), answer.message
        assert case.says in str(answer.body["message"])


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.id)
def test_change(rest: Rest, jobs: str, change: Change) -> None:
    """A job is created for real and then changed; the API server's verdict is the table's."""
    created = rest.request("POST", f"{jobs}?fieldValidation=Strict", change.before)
    assert created.taken, created.message
    version = created.body["metadata"]["resourceVersion"]
    metadata = {**change.after["metadata"], "resourceVersion": version}
    after = {**change.after, "metadata": metadata}
    answer = rest.request("PUT", f"{jobs}/{metadata['name']}?dryRun=All&fieldValidation=Strict", after)
    refused = change.refused_at is not None and not change.server_is_blind
    assert answer.taken == (not refused), answer.message
    if refused:
        assert change.refused_at in _problem_paths(answer), answer.message


def test_defaults_are_filled_in(rest: Rest) -> None:
    """Defaults of nested objects appear in what the API server stores."""
    case = next(case for case in CASES if case.id == "training-alone")
    spec = rest.request("POST", DRY_RUN, case.document).body["spec"]
    assert spec["runPolicy"]["backoffLimit"] == 3
    assert spec["distributed"]["ccl"]["provider"] == "tcp"
    assert spec["training"]["hyperparameters"]["learningRate"] == 5e-5


def test_table_columns(rest: Rest, jobs: str) -> None:
    """`kubectl get` shows the columns of the design, in their order, the wide ones marked so."""
    answer = rest.request("GET", jobs)
    assert answer.taken
    crd = rest.request("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD_NAME}").body
    served = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [column["name"] for column in served] == [column["name"] for column in PRINTER_COLUMNS]
    assert [column["name"] for column in served if not column.get("priority")] == [
        *("Phase", "Workers", "Progress", "Loss", "Samples/s", "ETA", "Restarts", "Age")
    ]
