"""A real API server takes the CRD, and judges every case of the table as `xeontrain validate` does."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from xeontrain_operator.api.crd import CRD_NAME, crd_yaml
from xeontrain_operator.constants import API_VERSION, KIND, PLURAL

from tests.cluster.errors import ClusterError
from tests.cluster_api.rest import Answer, Rest
from tests.contract.cases.changes import CHANGES, Change
from tests.contract.cases.creation import CASES, Case
from tests.contract.cases.scalars import DOCUMENTS, REFUSED, SCALARS

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


STATUS: dict[str, Any] = {
    "phase": "Running",
    "workers": {"desired": 2, "ready": 2, "display": "2/2"},
    "progress": {
        "display": "63% (79/125)",
        "loss": 0.4231,
        "samplesPerSecond": 28.0,
        "etaDisplay": "1m20s",
    },
    "restarts": {"failures": 1, "preemptions": 2, "display": "1 (+2)"},
    "conditions": [
        {
            "type": "CPUPinned",
            "status": "True",
            "reason": "Exclusive",
            "message": "Yes.",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ],
    "cpu": {"precision": "BF16", "backend": "Gloo"},
    "usage": {"costDisplay": "1.27 USD"},
}
HEAD = "NAME PHASE WORKERS PROGRESS LOSS SAMPLES/S ETA RESTARTS AGE"
ROW = "case Running 2/2 63% (79/125) 0.4231 28 1m20s 1 (+2)"


def test_table(rest: Rest, jobs: str, control_plane: Any) -> None:
    """`kubectl get xtj` shows what a person wants to know, and `-o wide` the rest."""
    case = next(case for case in CASES if case.id == "node-pool")
    created = rest.request("POST", jobs, case.document)
    written = rest.request("PUT", f"{jobs}/case/status", {**created.body, "status": STATUS})
    assert written.taken, written.message
    namespace = created.body["metadata"]["namespace"]
    head, row = _table(control_plane, namespace)
    assert (head, row[: len(ROW)]) == (HEAD, ROW)
    wide_head, wide_row = _table(control_plane, namespace, "-o", "wide")
    assert wide_head == f"{HEAD} PINNED PRECISION BACKEND POOL COST"
    assert wide_row.endswith("True BF16 Gloo xeon-spot 1.27 USD")


def _table(control_plane: Any, namespace: str, *options: str) -> list[str]:
    text = control_plane.kubectl("get", "xtj", "-n", namespace, *options).stdout
    return [" ".join(line.split()) for line in text.splitlines()]


def test_explain(rest: Rest, control_plane: Any) -> None:
    """`kubectl explain` teaches: a field, its meaning, and what it is for."""
    text = control_plane.kubectl("explain", "xtj.spec.training.hyperparameters.batchSize").stdout
    assert "Samples of one optimizer step, over all ranks together." in text


def test_scalars_as_kubectl_reads_them(rest: Rest, control_plane: Any) -> None:
    """kubectl's own reading of the table of scalars that the offline reader is held to."""
    fields = "".join(f"s{index}: {text}\n" for index, (text, _) in enumerate(SCALARS))
    expected = {f"s{index}": value for index, (_, value) in enumerate(SCALARS)}
    spec = _as_kubectl_reads(control_plane, fields)
    assert json.dumps(spec, sort_keys=True) == json.dumps(expected, sort_keys=True)


def test_documents_as_kubectl_reads_them(control_plane: Any) -> None:
    """Anchors, merge keys and odd keys too."""
    for text, value in DOCUMENTS:
        spec = _as_kubectl_reads(control_plane, text)
        assert value.items() <= spec.items(), text


def test_kubectl_refuses_what_we_do(control_plane: Any) -> None:
    """It does not even ask the API server."""
    for text in REFUSED:
        with pytest.raises(ClusterError, match="error parsing STDIN"):
            _as_kubectl_reads(control_plane, text)


def _as_kubectl_reads(control_plane: Any, text: str) -> dict[str, Any]:
    lines = "".join(f"  {line}\n" for line in text.splitlines())
    document = f"apiVersion: {API_VERSION}\nkind: {KIND}\nmetadata: {{name: a}}\nspec:\n{lines}"
    answer = control_plane.kubectl("annotate", "--local", "-f", "-", "-o", "json", "a=b", input=document)
    spec: dict[str, Any] = json.loads(answer.stdout)["spec"]
    return spec
