"""A gang of real launchers on this machine, for tests: pods are folders, containers are processes."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[4]
PATIENCE_SECONDS = 240.0
JOB_UID = "3f1b2c4d-0000-4000-8000-000000000001"

T = TypeVar("T")


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(look: Callable[[], T | None], what: str) -> T:
    """What `look` gives once it gives something; fails after PATIENCE_SECONDS."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not seen in {PATIENCE_SECONDS:.0f} s: {what}")


class Pod:
    """One pod of a worker: its emptyDir, its termination message, and the container that runs now."""

    def __init__(self, gang: Gang, worker: int, number: int) -> None:
        self.gang = gang
        self.worker = worker
        self.uid = f"pod-{worker}-{number}"
        self.folder = gang.folder / self.uid
        self.folder.mkdir()
        self.port = gang.ports[worker] if number == 1 or worker == 0 else free_port()
        self.termination = self.folder / "termination-log"
        self.output = self.folder / "output"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def state(self) -> Path:
        """The emptyDir."""
        return self.folder / "state"

    def start(self) -> None:
        """Starts the container, for the first time or again."""
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [*self.gang.wrapper(self), self.gang.python, *self.gang.launcher, "--", *self.gang.command],
                env=self.gang.environ(self),
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )

    def kill(self) -> None:
        """As the kernel does when memory runs out."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        """As the kubelet does; the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.exit_code()

    def exit_code(self) -> int:
        """Waits for the container's end."""
        assert self.process is not None
        return self.process.wait(PATIENCE_SECONDS)

    def running(self) -> bool:
        """Whether the container runs."""
        return self.process is not None and self.process.poll() is None

    def get(self, path: str) -> tuple[int, bytes]:
        """A page of its port."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def status(self) -> dict[str, Any]:
        """`/status`; empty while nothing answers."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            found: dict[str, Any] = json.loads(self.get("/status")[1])
            return found
        return {}

    def wait_for(self, what: str, test: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The first `/status` that passes the test."""

        def look() -> dict[str, Any] | None:
            if not self.running():
                raise AssertionError(f"{self.uid} has ended while {what} was awaited:\n{self.said()}")
            status = self.status()
            return status if status and test(status) else None

        return eventually(look, f"{self.uid}: {what}")

    def document(self) -> dict[str, Any]:
        """What stands in the termination message."""
        found: dict[str, Any] = json.loads(self.termination.read_text())
        return found

    def marker(self) -> dict[str, Any] | None:
        """The verdict in the emptyDir."""
        path = self.state / "marker.json"
        return json.loads(path.read_text()) if path.exists() else None

    def said(self) -> str:
        """The output of the container that was started last."""
        return self.output.read_text(errors="replace")


class Gang:
    """All workers of one job. `settings`: more variables of the contract, without their prefix.

    `prelude`: Python that each launcher runs first. `wrapper`: what a pod's command line begins with.
    """

    def __init__(
        self,
        folder: Path,
        *,
        workers: int,
        command: Sequence[str],
        prelude: str = "",
        wrapper: Callable[[Pod], Sequence[str]] = lambda _pod: (),
        **settings: Any,
    ) -> None:
        self.wrapper = wrapper
        self.folder = folder
        self.workers = workers
        self.command = list(command)
        self.settings = settings
        # What Python runs as the launcher: a test may put a machine of its own in front of it.
        run = "import runpy; runpy.run_module('xeontrain_trainer.launcher', run_name='__main__')"
        self.launcher = ["-c", f"{prelude}\n{run}"] if prelude else ["-m", "xeontrain_trainer.launcher"]
        self.python = sys.executable
        self.ports = [free_port() for _ in range(workers)]
        self.master_port = random.randrange(20000, 30000, 100)
        self.pods: list[Pod] = []
        self._all: list[Pod] = []

    def __enter__(self) -> Gang:
        for worker in range(self.workers):
            self.pods.append(self.make_pod(worker))
        for pod in self.pods:
            pod.start()
        return self

    def __exit__(self, *_error: object) -> None:
        for pod in self._all:
            if pod.running():
                pod.kill()

    def make_pod(self, worker: int) -> Pod:
        """A pod that is not started yet."""
        number = 1 + sum(pod.worker == worker for pod in self._all)
        pod = Pod(self, worker, number)
        self._all.append(pod)
        return pod

    def replace(self, worker: int) -> Pod:
        """Another pod takes the worker's place: another UID, an empty emptyDir."""
        pod = self.make_pod(worker)
        self.pods[worker] = pod
        pod.start()
        return pod

    def environ(self, pod: Pod) -> dict[str, str]:
        """What the operator sets."""
        ours = {
            "CONTRACT_VERSION": 1,
            "JOB_NAME": "loop",
            "JOB_NAMESPACE": "test",
            "JOB_UID": JOB_UID,
            "POD_NAME": f"loop-{pod.worker}",
            "POD_UID": pod.uid,
            "POD_IP": "127.0.0.1",
            "WORKER": pod.worker,
            "WORKERS": self.workers,
            "COORDINATOR": "127.0.0.1",
            "COORDINATOR_PORT": self.ports[0],
            "LAUNCHER_PORT": pod.port,
            "MASTER_PORT": self.master_port,
            "STATE_DIR": pod.state,
            "TERMINATION_LOG": pod.termination,
            **self.settings,
        }
        environ = {name: value for name, value in os.environ.items() if not name.startswith("XEONTRAIN_")}
        environ.update({f"XEONTRAIN_{name}": str(value) for name, value in ours.items()})
        environ["PYTHONPATH"] = str(ROOT / "trainer")
        return environ
