"""The three commands of the README on a fresh test cluster, each printed as it is run."""

from __future__ import annotations

import shlex
import subprocess
import time
from pathlib import Path

from tests.cluster import settings
from tests.cluster.cluster import OPERATOR_NAMESPACE, Cluster
from tests.cluster.errors import ClusterError

JOB_FILE = Path("examples/mail-filter.yaml")
JOB = "mail-filter"
JOB_PATH = f"/apis/xeontrain.dev/v1alpha1/namespaces/default/xeontrainjobs/{JOB}"
POLL_SECONDS = 3
OPERATOR_SECONDS = 180
TRAINING_SECONDS = 1800


def run() -> None:
    """Installs the chart, applies the example and shows the job's row whenever it changes.

    Raises ClusterError where a command fails or the job does not succeed.
    """
    with Cluster.running(images=("operator", "trainer")) as cluster:
        shell = _Shell(cluster)
        shell.run(f"helm install xeontrain charts/xeontrain -n {OPERATOR_NAMESPACE} --create-namespace")
        shell.run(f"kubectl rollout status deployment -n {OPERATOR_NAMESPACE} --timeout={OPERATOR_SECONDS}s")
        shell.run(f"kubectl apply -f {JOB_FILE}")
        phase = _watch(cluster)
        shell.run(f"kubectl describe xeontrainjob {JOB}")
        if phase != "Succeeded":
            raise ClusterError(f"the job ended {phase}; logs: {cluster.control_plane.folder.logs}")


class _Shell:
    """Prints each command before it runs, in the repository's folder."""

    def __init__(self, cluster: Cluster) -> None:
        self._binaries = cluster.control_plane.binaries
        self._kubeconfig = str(cluster.kubeconfig)

    def run(self, line: str) -> None:
        print(f"\n$ {line}", flush=True)
        program, *arguments = shlex.split(line)
        argv = [self._binaries[program], "--kubeconfig", self._kubeconfig, *arguments]
        if subprocess.run(argv, cwd=settings.REPOSITORY, check=False).returncode != 0:
            raise ClusterError(f"`{line}` failed")


def _watch(cluster: Cluster) -> str:
    """Shows kubectl's own watch of the job until it ends; returns the phase."""
    argv = ["get", "xeontrainjob", JOB, "--watch"]
    print(f"\n$ kubectl {' '.join(argv)}", flush=True)
    program = [cluster.control_plane.binaries["kubectl"], "--kubeconfig", str(cluster.kubeconfig)]
    with subprocess.Popen([*program, *argv]) as watch:
        try:
            return _wait_for_end(cluster)
        finally:
            watch.terminate()


def _wait_for_end(cluster: Cluster) -> str:
    deadline = time.monotonic() + TRAINING_SECONDS
    while time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        phase = str(cluster.control_plane.api.get(JOB_PATH).get("status", {}).get("phase", "Pending"))
        if phase in ("Succeeded", "Failed"):
            return phase
    return "unfinished"
