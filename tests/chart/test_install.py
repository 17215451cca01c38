"""The chart on a real API server: installed, upgraded, uninstalled, and the operator under its role."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from xeontrain_operator.api.validation import validate_job
from xeontrain_operator.api.yaml_dialect import read_documents
from xeontrain_operator.constants import API_VERSION, GROUP, KIND, PLURAL
from xeontrain_operator.kube.permissions import CLUSTER_PERMISSIONS, PERMISSIONS
from xeontrain_operator.settings import ENV_SETTINGS_FILE

from tests.chart import cases
from tests.chart.helm import CHART, NAMESPACE, ROOT, Helm, one
from tests.cluster.control_plane import API_ADDRESS, API_PORT, ControlPlane
from tests.cluster.errors import ClusterError

pytestmark = pytest.mark.cluster

CRD = "crd/xeontrainjobs.xeontrain.dev"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:xeontrain-operator"
PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Release:
    """The chart's release, as a user works with it."""

    helm: Helm

    def install(self, values: dict[str, Any]) -> None:
        self.helm.run("install", *self._chart(CHART), "--create-namespace", values=values)

    def upgrade(self, values: dict[str, Any], *, chart: Path = CHART) -> None:
        self.helm.run("upgrade", *self._chart(chart), values=values)

    def uninstall(self) -> None:
        self.helm.run("uninstall", "xeontrain", "--namespace", NAMESPACE, "--ignore-not-found")

    @staticmethod
    def _chart(chart: Path) -> tuple[str, ...]:
        return ("xeontrain", str(chart), "--namespace", NAMESPACE)


@contextmanager
def installed(helm: Helm, control_plane: ControlPlane, values: dict[str, Any]) -> Iterator[Release]:
    """The chart, installed; leaves neither release nor resource behind."""
    release = Release(helm)
    try:
        release.install(values)
        control_plane.kubectl("wait", "--for=condition=Established", CRD, "--timeout=30s")
        yield release
    finally:
        release.uninstall()
        control_plane.kubectl("delete", CRD, "--ignore-not-found", "--timeout=60s")


def until(found: Callable[[], bool], *, what: str) -> None:
    """Returns once `found` is true; fails after a minute."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not found():
        assert time.monotonic() < deadline, f"waited {PATIENCE_SECONDS} s for {what}"
        time.sleep(0.25)


def job(name: str) -> str:
    """A small job as YAML."""
    training = {"task": "text-classification", "model": "m", "dataset": {"files": {"train": ["/data.csv"]}}}
    spec = {"resources": {"cpu": 1, "memory": "1Gi"}, "training": training}
    return yaml.safe_dump({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec})


def get(control_plane: ControlPlane, *arguments: str) -> Any:
    """What kubectl gets, as JSON; None where it is not there."""
    text = control_plane.kubectl("get", *arguments, "--ignore-not-found", "-o=json").stdout
    return json.loads(text) if text else None


@pytest.mark.parametrize("values", list(cases.ACCEPTED.values()), ids=list(cases.ACCEPTED))
def test_api_server_takes_every_object(
    helm: Helm, control_plane: ControlPlane, namespace: str, values: dict[str, Any]
) -> None:
    """`helm template | kubectl apply --dry-run=server`: no object is refused, no field is unknown."""
    in_namespace = {**values, **({"watchNamespaces": [namespace]} if "watchNamespaces" in values else {})}
    objects = helm.template(in_namespace, namespace=namespace, hooks=False)
    control_plane.kubectl(
        *("apply", "--dry-run=server", "--server-side", "--validate=strict", "-f", "-"),
        input=yaml.safe_dump_all(objects),
    )


def test_notes_show_a_job_that_is_valid(cluster_helm: Helm) -> None:
    """The job that the notes tell a new user to apply passes every rule of the resource."""
    notes = cluster_helm.run("install", "notes", str(CHART), "--dry-run=server", "--hide-secret", values={})
    shown = notes.partition("<<YAML")[2].partition("YAML\n")[0]
    assert validate_job(read_documents(shown)[0].value) == []


def test_uninstall_keeps_jobs_and_install_finds_them(cluster_helm: Helm, control_plane: ControlPlane) -> None:
    """The resource and the jobs outlive the operator, and a new install takes both over unchanged."""
    with installed(cluster_helm, control_plane, {}) as release:
        control_plane.kubectl("apply", "-f", "-", input=job("survivor"))
        before = get(control_plane, "xtj", "survivor")["metadata"]["uid"]
        release.uninstall()
        assert get(control_plane, "deployment", "-n", NAMESPACE, "xeontrain-operator") is None
        assert get(control_plane, "xtj", "survivor")["metadata"]["uid"] == before
        release.install({})
        assert get(control_plane, "xtj", "survivor")["metadata"]["uid"] == before


def test_uninstall_deletes_the_resource_where_it_is_asked_for(
    cluster_helm: Helm, control_plane: ControlPlane
) -> None:
    """With `crds.keep=false` nothing of the chart is left."""
    with installed(cluster_helm, control_plane, {"crds": {"keep": False}}) as release:
        release.uninstall()
        until(lambda: get(control_plane, CRD) is None, what="the end of the resource")


def _older_chart(folder: Path) -> Path:
    """A copy of the chart whose resource lacks `status.usage`."""
    shutil.copytree(CHART, folder / "xeontrain")
    template = folder / "xeontrain" / "templates" / "crd" / "xeontrainjobs.yaml"
    lines = template.read_text().splitlines(keepends=True)
    start = next(n for n, line in enumerate(lines) if line.strip() == "usage:")
    depth = len(lines[start]) - len(lines[start].lstrip())
    end = next(n for n in range(start + 1, len(lines)) if len(lines[n]) - len(lines[n].lstrip()) <= depth)
    template.write_text("".join(lines[:start] + lines[end:]))
    return folder / "xeontrain"


def test_upgrade_upgrades_the_resource(
    cluster_helm: Helm, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """A field that is new in the resource is served after `helm upgrade`, not silently dropped."""
    explain = ("explain", "xeontrainjobs.status.usage")
    with installed(cluster_helm, control_plane, {}) as release:
        release.upgrade({}, chart=_older_chart(tmp_path))
        until(lambda: control_plane.kubectl(*explain, check=False).returncode != 0, what="the older resource")
        release.upgrade({})
        until(lambda: control_plane.kubectl(*explain, check=False).returncode == 0, what="the new field")


def test_upgrade_with_new_settings_makes_a_new_pod(cluster_helm: Helm, control_plane: ControlPlane) -> None:
    """A changed setting changes the pod template; an upgrade without a change does not."""
    with installed(cluster_helm, control_plane, {}) as release:

        def generation() -> int:
            found = get(control_plane, "deployment", "-n", NAMESPACE, "xeontrain-operator")
            return int(found["metadata"]["generation"])

        first = generation()
        release.upgrade({})
        assert generation() == first
        release.upgrade({"currency": "EUR"})
        assert generation() == first + 1


@dataclass(frozen=True)
class Right:
    """One thing to do with one resource, `pods/log` with its subresource."""

    verb: str
    resource: str
    group: str = ""

    def review(self, user: str, *, namespace: str) -> dict[str, Any]:
        """The question to the API server whether the user has it."""
        name, _, subresource = self.resource.partition("/")
        attributes = {"namespace": namespace, "verb": self.verb, "group": self.group, "resource": name}
        spec = {"user": user, "resourceAttributes": {**attributes, "subresource": subresource}}
        return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


def granted(
    control_plane: ControlPlane, user: str, rights: Sequence[Right], *, namespace: str
) -> list[Right]:
    """Those of the rights that the user has in the namespace, as the API server sees it."""
    reviews = yaml.safe_dump_all(right.review(user, namespace=namespace) for right in rights)
    output = '-o=jsonpath={.status.allowed}{"\\n"}'
    answers = control_plane.kubectl("create", "-f", "-", output, input=reviews).stdout.splitlines()
    return [right for right, answer in zip(rights, answers, strict=True) if answer == "true"]


OPERATORS = [
    Right(verb, one.resource, one.group) for one in (*PERMISSIONS, *CLUSTER_PERMISSIONS) for verb in one.verbs
]
FORBIDDEN = [
    Right("get", "secrets"),
    Right("create", "pods"),
    Right("create", "pods/exec"),
    Right("update", "nodes"),
    Right("update", "xeontrainjobs", "xeontrain.dev"),
    Right("create", "clusterrolebindings", "rbac.authorization.k8s.io"),
]


def test_operator_may_do_what_it_does_and_no_more(cluster_helm: Helm, control_plane: ControlPlane) -> None:
    """The API server itself says yes to each listed right, in any namespace, and no to what none needs."""
    with installed(cluster_helm, control_plane, {}):
        asked = [*OPERATORS, *FORBIDDEN]
        assert granted(control_plane, ACCOUNT, asked, namespace="default") == OPERATORS


def test_operator_of_some_namespaces_may_nothing_elsewhere(
    cluster_helm: Helm, control_plane: ControlPlane, namespace: str
) -> None:
    """With `watchNamespaces` the account has its rights there; elsewhere it may only look at nodes."""
    with installed(cluster_helm, control_plane, {"watchNamespaces": [namespace]}):
        assert granted(control_plane, ACCOUNT, OPERATORS, namespace=namespace) == OPERATORS
        elsewhere = granted(control_plane, ACCOUNT, OPERATORS, namespace="default")
        assert elsewhere == [right for right in OPERATORS if right.resource == "nodes"]


@pytest.mark.parametrize(
    ("role", "allowed", "refused"),
    [
        ("view", ("get", "list", "watch"), ("create", "delete", "patch")),
        ("edit", ("get", "create", "delete", "patch", "deletecollection"), ()),
        ("admin", ("get", "create", "delete", "patch", "update"), ()),
    ],
)
def test_people_get_the_resource_with_their_role(
    cluster_helm: Helm,
    control_plane: ControlPlane,
    namespace: str,
    role: str,
    allowed: tuple[str, ...],
    refused: tuple[str, ...],
) -> None:
    """Whoever is bound to view, edit or admin in a namespace may do the same to its jobs."""
    with installed(cluster_helm, control_plane, {}):
        control_plane.kubectl(
            "create", "rolebinding", "b", f"--clusterrole={role}", "--user=ada", "-n", namespace
        )

        def has(verbs: tuple[str, ...]) -> list[Right]:
            rights = [Right(verb, PLURAL, GROUP) for verb in verbs]
            return granted(control_plane, "ada", rights, namespace=namespace)

        until(lambda: len(has(allowed)) == len(allowed), what=f"the aggregation into {role}")
        assert not refused or has(refused) == []


@contextmanager
def operator_under_the_charts_role(
    control_plane: ControlPlane, settings: str, folder: Path
) -> Iterator[Callable[[], str]]:
    """The operator as a process, with the account and the settings of the installed chart; yields its log."""
    (folder / "settings.yaml").write_text(settings)
    log = folder / "operator.log"
    kubeconfig = control_plane.service_account_kubeconfig(
        "xeontrain-operator", namespace=NAMESPACE, inside=True
    )
    environment = {
        "KUBECONFIG": str(kubeconfig),
        ENV_SETTINGS_FILE: str(folder / "settings.yaml"),
        "PYTHONPATH": f"{ROOT}/operator",
    }
    with log.open("w") as sink:
        process = control_plane.popen(
            [sys.executable, "-m", "xeontrain_operator.main"], env=environment, stdout=sink, stderr=sink
        )
        try:
            yield log.read_text
        finally:
            process.terminate()
            process.wait(timeout=40)


@pytest.mark.parametrize("confined", [False, True], ids=["cluster-wide", "one-namespace"])
def test_operator_works_under_the_charts_role(
    cluster_helm: Helm, control_plane: ControlPlane, namespace: str, tmp_path: Path, confined: bool
) -> None:
    """With no right but the chart's the operator is healthy, passes the script of `helm test`, makes a job's
    children, and is never refused; the children outlive its uninstallation and go with their job without it.
    """
    values = {"watchNamespaces": [namespace]} if confined else {}
    objects = cluster_helm.template(values)
    with installed(cluster_helm, control_plane, values) as release:
        settings = one(objects, "ConfigMap")["data"]["settings.yaml"]
        with operator_under_the_charts_role(control_plane, settings, tmp_path) as log:
            until(lambda: _is_healthy(control_plane), what="a healthy operator")
            said = _run_helm_test(control_plane, one(objects, "Pod"), tmp_path)
            assert f"XeonTrainJobList {namespace if confined else ''}".rstrip() in said
            control_plane.kubectl("apply", "-n", namespace, "-f", "-", input=job("ours"))
            until(lambda: _children(control_plane, namespace) == CHILDREN, what="the job's children")
            until(lambda: _phase(control_plane, namespace) == "Pending", what="the job's status")
            assert [line for line in log().splitlines() if "orbidden" in line] == []
        release.uninstall()
        assert _children(control_plane, namespace) == CHILDREN
        control_plane.kubectl("delete", "xtj", "ours", "-n", namespace)
        until(lambda: not _children(control_plane, namespace), what="the end of the children")


CHILDREN = {"StatefulSet", "Service", "ConfigMap", "NetworkPolicy"}


def _children(control_plane: ControlPlane, namespace: str) -> set[str]:
    kinds = "statefulset,service,configmap,networkpolicy"
    found = get(control_plane, kinds, "-n", namespace, "-l", "xeontrain.dev/job-name=ours")
    return {item["kind"] for item in found["items"]} if found else set()


def _phase(control_plane: ControlPlane, namespace: str) -> str | None:
    phase: str | None = get(control_plane, "xtj", "ours", "-n", namespace).get("status", {}).get("phase")
    return phase


def _is_healthy(control_plane: ControlPlane) -> bool:
    """The chart's liveness probe, asked where the operator runs."""
    ask = "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/healthz', timeout=5)"
    try:
        control_plane.run([sys.executable, "-c", ask], timeout_seconds=20)
    except ClusterError:
        return False
    return True


def _run_helm_test(control_plane: ControlPlane, pod: dict[str, Any], folder: Path) -> list[str]:
    """The lines that the test pod's script prints, run here with the addresses that a pod would have."""
    shutil.copy(control_plane.ca_file, folder / "ca.crt")
    made = control_plane.kubectl("create", "token", "xeontrain-operator", "-n", NAMESPACE)
    (folder / "token").write_text(made.stdout.strip())
    (script,) = pod["spec"]["containers"][0]["args"]
    for inside_a_pod, here in (
        ("/var/run/secrets/kubernetes.io/serviceaccount/", f"{folder}/"),
        ("https://kubernetes.default.svc/", f"https://{API_ADDRESS}:{API_PORT}/"),
        ("http://xeontrain-operator-metrics:8081/", "http://127.0.0.1:8081/"),
    ):
        assert inside_a_pod in script
        script = script.replace(inside_a_pod, here)
    done = control_plane.run([sys.executable, "-c", script], timeout_seconds=60)
    return [line.strip() for line in done.stdout.splitlines()]
