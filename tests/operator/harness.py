"""The operator as a real process under its own role, and a hand for what kubelets and users do."""

from __future__ import annotations

import http.client
import json
import secrets
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import yaml
from xeontrain_operator import constants
from xeontrain_operator.kube import kinds
from xeontrain_operator.kube.permissions import CLUSTER_PERMISSIONS, PERMISSIONS, Permission

from tests.cluster.control_plane import ControlPlane
from tests.cluster.namespaces import InsideProcess
from tests.cluster.relay import Relay
from tests.operator.api import Api, kind_of

Document = dict[str, Any]
T = TypeVar("T")

ROOT: Final = Path(__file__).parents[2]
ACCOUNT: Final = "operator"
WAIT_SECONDS: Final = 60.0


def wait_for(condition: Callable[[], T | None], *, what: str, seconds: float = WAIT_SECONDS) -> T:
    """The first true value of `condition`; fails naming `what` it waited for and what it saw last."""
    deadline, seen = time.monotonic() + seconds, None
    while time.monotonic() < deadline:
        seen = condition()
        if seen:
            return seen
        time.sleep(0.2)
    raise AssertionError(f"waited {seconds:.0f} s in vain for {what}; last seen: {seen!r}")


def job(name: str, **spec: Any) -> Document:
    """A small job with a command."""
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.KIND,
        "metadata": {"name": name},
        "spec": {"resources": {"cpu": 1, "memory": "1Gi"}, "command": ["true"], **spec},
    }


def training_job(name: str, **spec: Any) -> Document:
    """A small job with the built-in training: it has a ConfigMap too."""
    body = job(name, **spec)
    del body["spec"]["command"]
    body["spec"]["training"] = {
        "task": "text-classification",
        "model": "some/model",
        "dataset": {
            "files": {"train": ["/data/train.csv"]},
            "columns": {"text": "text", "label": "label"},
        },
        "hyperparameters": {"batchSize": 8},
    }
    return body


class Team:
    """A namespace and what people do in it, by kubectl."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        self.control_plane = control_plane
        self.namespace = namespace
        self.api = Api(control_plane.kubeconfig)

    def kubectl(self, *arguments: str, input: str | None = None, check: bool = True) -> str:
        """kubectl in this namespace; returns its output."""
        done = self.control_plane.kubectl("-n", self.namespace, *arguments, input=input, check=check)
        return done.stdout

    def apply(self, *bodies: Document) -> None:
        """What a user does."""
        self.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(bodies))

    def get(self, kind: str, name: str) -> Document | None:
        """The object, with its managed fields; None where it is not there."""
        return self.api.get(kind_of(kind), namespace=self.namespace, name=name)

    def list(self, kind: str, *, selector: str = "") -> list[Document]:
        """Objects of a kind."""
        return self.api.list(kind_of(kind), namespace=self.namespace, labelSelector=selector)

    def exists(self, kind: str, name: str) -> Document:
        """The object, once it is there."""
        return wait_for(lambda: self.get(kind, name), what=f"{kind} {name}")

    def gone(self, kind: str, name: str) -> None:
        """Returns when the object is not there."""
        wait_for(lambda: self.get(kind, name) is None, what=f"the end of {kind} {name}")

    def status(self, name: str) -> Document:
        """A job's status, empty where it has none."""
        return dict((self.get("xtj", name) or {}).get("status") or {})

    def phase(self, name: str, *phases: str) -> Document:
        """The job's status, once it is in one of these phases."""
        wait_for(
            lambda: self.status(name).get("phase") in phases or None,
            what=f"{name} to be {' or '.join(phases)}: {self.status(name)}",
        )
        return self.status(name)

    def condition(self, name: str, type_: str) -> Document:
        """A condition of a job; empty where it has none of that type."""
        found = self.status(name).get("conditions") or ()
        return next((item for item in found if item["type"] == type_), {})

    def events(self, name: str) -> list[str]:
        """Reasons of the events about a job, in their order."""
        selector = f"involvedObject.name={name},involvedObject.kind={constants.KIND}"
        found = self.api.list(kinds.EVENT, namespace=self.namespace, fieldSelector=selector)
        return [item["reason"] for item in found]

    def patch_status(self, kind: str, name: str, status: Document) -> None:
        """What a kubelet does to a pod, or a controller to its object."""
        found = kind_of(kind)
        namespace = None if found is kinds.NODE else self.namespace
        self.api.merge(found, {"status": status}, namespace=namespace, name=name, subresource="status")

    def end_pod(self, name: str) -> None:
        """No kubelet is there to end a pod that is to go."""
        self.api.end_pod(namespace=self.namespace, name=name)


class Kubelet:
    """Plays the kubelet of one job's pods: it reports, on the real API server, what containers do."""

    def __init__(self, team: Team, name: str) -> None:
        self._team = team
        self._name = name

    def pod(self, worker: int) -> Document:
        """The worker's pod, once the StatefulSet controller has made it."""
        return self._team.exists("pod", f"{self._name}-{worker}")

    def runs(self, worker: int, *, ip: str = "127.0.0.1", restarts: int = 0, last: str | None = None) -> None:
        """The trainer container runs; `last`: the message with which it ended before."""
        self.pod(worker)
        state = {"running": {"startedAt": _now()}}
        self._report(worker, state, ip=ip, ready=True, restarts=restarts, last=last)

    def ended(self, worker: int, message: str, *, exit_code: int = 0) -> None:
        """The trainer container has ended, with this termination message."""
        self._report(worker, {"terminated": _terminated(message, exit_code)}, ready=False)

    def _report(
        self,
        worker: int,
        state: Document,
        *,
        ip: str = "127.0.0.1",
        ready: bool,
        restarts: int = 0,
        last: str | None = None,
    ) -> None:
        container = {
            "name": constants.CONTAINER_NAME,
            "image": "trainer",
            "imageID": "trainer@sha256:0",
            "ready": ready,
            "restartCount": restarts,
            "state": state,
            "lastState": {"terminated": _terminated(last, 0)} if last is not None else {},
        }
        status = {
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "qosClass": "Guaranteed",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [container],
        }
        self._team.patch_status("pod", f"{self._name}-{worker}", status)


def _terminated(message: str, exit_code: int) -> Document:
    return {
        "exitCode": exit_code,
        "reason": "Completed" if exit_code == 0 else "Error",
        "message": message,
        "startedAt": _now(),
        "finishedAt": _now(),
    }


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def result_document(uid: str, **changes: Any) -> str:
    """A result document as worker 0's launcher writes it."""
    document = {
        "contract": constants.CONTRACT_VERSION,
        "jobUid": uid,
        "worker": 0,
        "round": 1,
        "outcome": "Succeeded",
        "metrics": {"accuracy": 0.97},
        "model": None,
        "failures": 0,
        "failure": None,
    }
    return json.dumps({**document, **changes})


class Operator:
    """A running operator process."""

    def __init__(
        self, control_plane: ControlPlane, process: InsideProcess, *, ports: tuple[int, int]
    ) -> None:
        pid = control_plane.namespaces.pid
        self.process = process
        self._probe, self._metrics = (
            Relay(namespace_pid=pid, address="127.0.0.1", port=port) for port in ports
        )

    def close(self) -> None:
        """End the ways to its ports."""
        self._probe.stop()
        self._metrics.stop()

    def healthy(self) -> bool:
        """Whether the liveness endpoint answers 200."""
        try:
            return bool(_fetch(self._probe, "/healthz"))
        except (OSError, http.client.HTTPException):
            return False

    def metrics(self) -> dict[str, float]:
        """All samples by name and labels, as the text format writes them."""
        lines = _fetch(self._metrics, "/metrics").splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def reconciles(self) -> float:
        """How many reconciles have ended."""
        return self._sum("xeontrain_reconcile_seconds_count")

    def writes(self) -> float:
        """How many calls have changed, or tried to change, anything."""
        reading = ('verb="get"', 'verb="list"', 'verb="discover"')
        return self._sum("xeontrain_api_requests_total", but=reading)

    def kill(self) -> None:
        """As if the node's power failed."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def stop(self) -> int:
        """As the kubelet ends it; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def _sum(self, name: str, *, but: tuple[str, ...] = ()) -> float:
        return sum(
            value
            for sample, value in self.metrics().items()
            if sample.startswith(f"{name}{{") and not any(label in sample for label in but)
        )


def _fetch(relay: Relay, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{relay.port}{path}", timeout=15) as answer:
        return str(answer.read().decode())


class Place:
    """Where operators can be started: account, role, settings and logs."""

    def __init__(self, control_plane: ControlPlane, *, namespace: str, folder: Path) -> None:
        self.team = Team(control_plane, namespace)
        self._control_plane = control_plane
        self._folder = folder
        self._kubeconfig: Path | None = None
        self._started = 0

    def prepare(self) -> Self:
        """The service account, with exactly the rights that `kube.permissions` lists."""
        self.team.apply(*roles(self.team.namespace))
        self._kubeconfig = self._control_plane.service_account_kubeconfig(
            ACCOUNT, namespace=self.team.namespace, inside=True
        )
        return self

    @contextmanager
    def operator(self, *, ready: bool = True, **settings: Any) -> Iterator[Operator]:
        """An operator of this namespace, ended with the block; `ready`: wait until it works."""
        self._started += 1
        # Ports of its own: the one before may have been killed a moment ago.
        ports = (18080 + 2 * self._started, 18081 + 2 * self._started)
        process = self._start(ports, settings)
        operator = Operator(self._control_plane, process, ports=ports)
        try:
            if ready:
                wait_for(lambda: operator.healthy() or None, what=f"the operator: {self.log()[-2000:]}")
            yield operator
        finally:
            if process.poll() is None:
                operator.stop()
            operator.close()

    def log(self) -> str:
        """What all operators of this place have written."""
        return "".join(path.read_text() for path in sorted(self._folder.glob("operator-*.log")))

    def _start(self, ports: tuple[int, int], settings: Mapping[str, Any]) -> InsideProcess:
        chosen = {
            "watchNamespaces": [self.team.namespace],
            "probePort": ports[0],
            "metricsPort": ports[1],
            **settings,
        }
        path = self._folder / f"settings-{self._started}.yaml"
        path.write_text(yaml.safe_dump(chosen))
        env = {
            "KUBECONFIG": str(self._kubeconfig),
            "PYTHONPATH": f"{ROOT}/operator",
            "PYTHONWARNINGS": "error",
            "XEONTRAIN_SETTINGS_FILE": str(path),
        }
        with (self._folder / f"operator-{self._started}.log").open("w") as log:
            return self._control_plane.popen(
                [sys.executable, "-m", "xeontrain_operator.main"], env=env, stdout=log, stderr=log
            )


def roles(namespace: str) -> list[Document]:
    """The operator's service account with its rights, as the chart gives them."""
    name = f"operator-{namespace}"
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    rbac = "rbac.authorization.k8s.io/v1"

    def binding(kind: str, role: str) -> Document:
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name}
        return {
            "apiVersion": rbac,
            "kind": kind,
            "metadata": {"name": name},
            "roleRef": reference,
            "subjects": [subject],
        }

    def role(kind: str, permissions: tuple[Permission, ...]) -> Document:
        rules = [
            {"apiGroups": [item.group], "resources": [item.resource], "verbs": list(item.verbs)}
            for item in permissions
        ]
        return {"apiVersion": rbac, "kind": kind, "metadata": {"name": name}, "rules": rules}

    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}},
        role("Role", PERMISSIONS),
        binding("RoleBinding", "Role"),
        role("ClusterRole", CLUSTER_PERMISSIONS),
        binding("ClusterRoleBinding", "ClusterRole"),
    ]


@contextmanager
def place(control_plane: ControlPlane, folder: Path) -> Iterator[Place]:
    """A fresh namespace in which operators can be started; deleted, without waiting, afterwards."""
    namespace = f"op-{secrets.token_hex(4)}"
    control_plane.kubectl("create", "namespace", namespace)
    found = Place(control_plane, namespace=namespace, folder=folder).prepare()
    yield found
    print(found.log(), file=sys.stderr)
    control_plane.kubectl("delete", "namespace", namespace, "--wait=false")
    for kind in ("clusterrole", "clusterrolebinding"):
        control_plane.kubectl("delete", kind, f"operator-{namespace}", "--wait=false")
