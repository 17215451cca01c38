"""The fast tier: etcd, API server, controller manager and scheduler, ready in a few seconds.

    with ControlPlane.running() as control_plane:
        control_plane.kubectl("get", "namespaces")

Authorization is Node,RBAC; service account tokens work. The API server is reached from the host through
`control_plane.url` and `control_plane.kubeconfig` (a relay on a loopback port), and from processes that
`run` and `popen` start inside the namespaces under the fixed address 10.250.0.1:6443.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster import binaries as programs
from tests.cluster import credentials
from tests.cluster.api import Api
from tests.cluster.binaries import Binaries
from tests.cluster.credentials import User
from tests.cluster.errors import ClusterError
from tests.cluster.go_build import say
from tests.cluster.namespaces import InsideProcess, Namespaces
from tests.cluster.processes import Components
from tests.cluster.relay import Relay
from tests.cluster.run_folder import RunFolder

API_ADDRESS = "10.250.0.1"
API_PORT = 6443
ETCD_URL = "http://127.0.0.1:2379"
SERVICE_CIDR = "10.96.0.0/16"
KUBERNETES_SERVICE_IP = "10.96.0.1"
POD_CIDR = "10.244.0.0/16"
# Long, because a build may be going on beside it.
READY_SECONDS = 300
DAY_SECONDS = 86400


class ControlPlane:
    """A running control plane; made by `running()`."""

    def __init__(
        self,
        *,
        binaries: Binaries,
        folder: RunFolder,
        namespaces: Namespaces,
        users: Sequence[User] = (),
    ) -> None:
        self.binaries = binaries
        self.namespaces = namespaces
        self.folder = folder
        self.components = Components(namespaces, logs=folder.logs)
        self._admin = User.new("admin", "system:masters")
        self._users = (self._admin, *users)
        self._relay: Relay | None = None

    @classmethod
    @contextmanager
    def running(
        cls,
        *,
        binaries: Binaries | None = None,
        users: Sequence[User] = (),
        addresses: Sequence[str] = (),
        node_grace_seconds: int = DAY_SECONDS,
    ) -> Iterator[ControlPlane]:
        """Starts a control plane and ends it, with all that runs inside it, when the block ends.

        users: who may come besides the administrator; addresses: further ones that the loopback interface
        inside gets; node_grace_seconds: how long a node may be silent before it is NotReady (a day here, so
        that Node objects without a kubelet stay as the test made them).
        """
        found = binaries or programs.ensure(programs.CONTROL_PLANE_PROGRAMS)
        namespaces = Namespaces.start(addresses=[API_ADDRESS, *addresses])
        folder = RunFolder()
        control_plane = cls(binaries=found, folder=folder, namespaces=namespaces, users=users)
        try:
            control_plane._start(node_grace_seconds=node_grace_seconds)
            yield control_plane
        finally:
            control_plane._stop()

    def _start(self, *, node_grace_seconds: int) -> None:
        started = time.monotonic()
        state = self.folder.state
        self._write_credentials(state)
        self.components.start("etcd", self._etcd_argv(state))
        self.components.start("kube-apiserver", self._apiserver_argv(state))
        self._relay = Relay(namespace_pid=self.namespaces.pid, address=API_ADDRESS, port=API_PORT)
        self.api = Api(self.url, token=self._admin.token, ca_file=self.ca_file)
        self.kubeconfig_inside = self.write_kubeconfig("admin-inside", user=self._admin, inside=True)
        self.kubeconfig = self.write_kubeconfig("admin", user=self._admin)
        self.components.wait_until(
            self.is_ready, what="API server", component="kube-apiserver", timeout_seconds=READY_SECONDS
        )
        self.components.start("kube-controller-manager", self._controllers_argv(state, node_grace_seconds))
        self.components.start("kube-scheduler", self._scheduler_argv())
        self.components.wait_until(
            self._default_account_exists,
            what="controller manager",
            component="kube-controller-manager",
            timeout_seconds=READY_SECONDS,
        )
        say(f"control plane ready in {time.monotonic() - started:.0f} s; logs: {self.folder.logs}")

    def _stop(self) -> None:
        if self._relay:
            self._relay.stop()
        self.namespaces.stop()
        self.components.bury()
        self.folder.close()

    def _write_credentials(self, state: Path) -> None:
        addresses = ["127.0.0.1", API_ADDRESS, KUBERNETES_SERVICE_IP]
        hosts = ["localhost", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
        names = [f"IP:{address}" for address in addresses] + [f"DNS:{host}" for host in hosts]
        credentials.make_serving_certificate(state, names=names)
        credentials.make_service_account_key(state / "sa.key")
        credentials.write_token_file(state / "tokens.csv", users=self._users)

    def _etcd_argv(self, state: Path) -> list[str]:
        return [
            self.binaries["etcd"],
            *(f"--data-dir={state}/etcd", "--log-level=warn"),
            *(f"--listen-client-urls={ETCD_URL}", f"--advertise-client-urls={ETCD_URL}"),
            "--listen-peer-urls=http://127.0.0.1:2380",
            # Nothing here has to survive a power cut, and fsync is most of etcd's time.
            "--unsafe-no-fsync=true",
        ]

    def _apiserver_argv(self, state: Path) -> list[str]:
        return [
            self.binaries["kube-apiserver"],
            f"--etcd-servers={ETCD_URL}",
            *(f"--tls-cert-file={state}/apiserver.crt", f"--tls-private-key-file={state}/apiserver.key"),
            *("--bind-address=0.0.0.0", f"--advertise-address={API_ADDRESS}", f"--secure-port={API_PORT}"),
            # Node names are in no DNS: without this, logs and exec look for them there.
            "--kubelet-preferred-address-types=InternalIP",
            *("--authorization-mode=Node,RBAC", f"--token-auth-file={state}/tokens.csv"),
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={state}/sa.key",
            f"--service-account-signing-key-file={state}/sa.key",
            *(f"--service-cluster-ip-range={SERVICE_CIDR}", "--allow-privileged=true"),
            # A namespace may say where its pods go; nothing changes for those that do not.
            "--enable-admission-plugins=PodNodeSelector,PodTolerationRestriction",
        ]

    def _controllers_argv(self, state: Path, node_grace_seconds: int) -> list[str]:
        return [
            self.binaries["kube-controller-manager"],
            *(f"--kubeconfig={self.kubeconfig_inside}", "--leader-elect=false"),
            *(f"--service-account-private-key-file={state}/sa.key", f"--root-ca-file={state}/apiserver.crt"),
            *(f"--cluster-cidr={POD_CIDR}", "--allocate-node-cidrs=false"),
            f"--node-monitor-grace-period={node_grace_seconds}s",
        ]

    def _scheduler_argv(self) -> list[str]:
        return [
            self.binaries["kube-scheduler"],
            f"--kubeconfig={self.kubeconfig_inside}",
            "--leader-elect=false",
        ]

    @property
    def url(self) -> str:
        """The API server's URL as the host reaches it."""
        assert self._relay is not None
        return f"https://127.0.0.1:{self._relay.port}"

    @property
    def ca_file(self) -> Path:
        """The certificate that signs the API server's (it is the same one)."""
        return self.folder.state / "apiserver.crt"

    def write_kubeconfig(self, name: str, *, user: User, inside: bool = False) -> Path:
        """Writes a kubeconfig for a user, for the host or for processes inside, and returns its path."""
        server = f"https://{API_ADDRESS}:{API_PORT}" if inside else self.url
        path = self.folder.state / f"{name}.kubeconfig"
        return credentials.write_kubeconfig(path, server=server, ca=self.ca_file, token=user.token)

    def service_account_kubeconfig(self, name: str, *, namespace: str, inside: bool = False) -> Path:
        """Writes a kubeconfig with a fresh token of a service account, which must exist."""
        token = self.kubectl("create", "token", name, "-n", namespace, "--duration=24h").stdout.strip()
        user = User(name=f"system:serviceaccount:{namespace}:{name}", token=token)
        return self.write_kubeconfig(f"{namespace}-{name}", user=user, inside=inside)

    def is_ready(self) -> bool:
        """True once the API server answers `/readyz` with 200."""
        return self._answers("/readyz")

    def _default_account_exists(self) -> bool:
        # Pods cannot be made in a namespace before the controller manager gave it this account.
        return self._answers("/api/v1/namespaces/default/serviceaccounts/default")

    def _answers(self, path: str) -> bool:
        try:
            self.api.text(path)
        except ClusterError:
            return False
        return True

    def kubectl(
        self,
        *arguments: str,
        input: str | None = None,
        check: bool = True,
        timeout_seconds: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl on the host against this cluster, as administrator, and returns its output.

        Raises ClusterError with kubectl's words where it fails and `check` is set.
        """
        done = subprocess.run(
            [self.binaries["kubectl"], "--kubeconfig", str(self.kubeconfig), *arguments],
            input=input,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_seconds,
        )
        if check and done.returncode != 0:
            raise ClusterError(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done

    def run(self, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Runs a program inside the namespaces with KUBECONFIG set; options as `Namespaces.run`."""
        options["env"] = self._inside_env(options.get("env"))
        return self.namespaces.run(argv, **options)

    def popen(self, argv: Sequence[str], **options: Any) -> InsideProcess:
        """Starts a program inside the namespaces with KUBECONFIG set; options as `Namespaces.popen`."""
        options["env"] = self._inside_env(options.get("env"))
        return self.namespaces.popen(argv, **options)

    def _inside_env(self, env: Mapping[str, str] | None) -> dict[str, str]:
        own = {"KUBECONFIG": str(self.kubeconfig_inside), "PATH": self.binaries.search_path()}
        return {**own, **(env or {})}
