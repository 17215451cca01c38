"""The components of a running cluster: started inside its namespaces, each with a log of its own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.cluster.errors import ComponentFailed
from tests.cluster.namespaces import InsideProcess, Namespaces

POLL_SECONDS = 0.1


class Components:
    """Starts components, waits for them, and names the one that failed with the end of its log."""

    def __init__(self, namespaces: Namespaces, *, logs: Path) -> None:
        self._namespaces = namespaces
        self._logs = logs
        self._running: dict[str, InsideProcess] = {}

    def start(self, name: str, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> None:
        """Starts a component; its output goes to `<name>.log`."""
        with self.log(name).open("a") as log:
            self._running[name] = self._namespaces.popen(argv, env=env, stdout=log, stderr=log)

    def log(self, name: str) -> Path:
        """Returns the path of a component's log."""
        return self._logs / f"{name}.log"

    def process(self, name: str) -> InsideProcess:
        """Returns a started component's process."""
        return self._running[name]

    def stop(self, name: str, *, grace_seconds: float = 5) -> None:
        """Ends one component: SIGTERM, and SIGKILL after the grace."""
        process = self._running.pop(name)
        process.terminate()
        try:
            process.wait(timeout=grace_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def check(self) -> None:
        """Raises ComponentFailed where a component has ended by itself."""
        for name, process in self._running.items():
            code = process.poll()
            if code is not None:
                raise ComponentFailed(f"{name} ended with code {code}", log=self.log(name))

    def wait_until(
        self, ready: Callable[[], bool], *, what: str, component: str, timeout_seconds: float
    ) -> None:
        """Waits until `ready` answers True.

        Raises ComponentFailed with the component's log where a component ends or time runs out.
        """
        deadline = time.monotonic() + timeout_seconds
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise ComponentFailed(
                    f"{what} not ready after {timeout_seconds:.0f} s", log=self.log(component)
                )
            time.sleep(POLL_SECONDS)

    def bury(self) -> None:
        """Collects the exit of every component once the namespaces are down."""
        for process in self._running.values():
            process.wait()
        self._running.clear()
