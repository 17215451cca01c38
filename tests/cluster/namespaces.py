"""Network, mount and PID namespaces that own every process of one cluster.

`Namespaces.start()` makes them by one `unshare`; `popen` and `run` start programs inside. The end of the
unshare process, of its process 1, or of the harness ends every process inside and every mount.
Without root a user namespace is added; that is enough for the control plane, not for kubelets.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tests.cluster.errors import ClusterError, RequirementMissing

INIT = Path(__file__).with_name("init.py")


class InsideProcess(subprocess.Popen[str]):
    """A program inside the namespaces, driven as if it were our own child.

    Our child is `nsenter`, which waits for the program and ends as it does; signals go to the program.
    """

    def send_signal(self, sig: int) -> None:
        """Sends the signal to the program; to nsenter where it has not started it yet."""
        if self.poll() is None:
            for pid in children_of(self.pid) or [self.pid]:
                _kill(pid, sig)

    def inner_pid(self) -> int | None:
        """Returns the program's process id as the host sees it, None where it is not running."""
        return next(iter(children_of(self.pid)), None)


def children_of(pid: int) -> list[int]:
    """Returns the process ids of a process's children."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _kill(pid: int, sig: int) -> None:
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        return


def require_namespaces() -> None:
    """Raises RequirementMissing where this machine cannot make the namespaces."""
    if sys.platform != "linux":
        raise RequirementMissing("the test cluster needs Linux namespaces", remedy="Run it on Linux")
    for tool in ("unshare", "nsenter", "setpriv", "ip", "mount"):
        if shutil.which(tool) is None:
            raise RequirementMissing(f"`{tool}` is not on PATH", remedy="Install util-linux and iproute2")
    probe = subprocess.run(
        ["unshare", *_unshare_flags(), "true"], capture_output=True, text=True, check=False
    )
    if probe.returncode != 0:
        raise RequirementMissing(
            f"namespaces cannot be made here: {probe.stderr.strip()}", remedy="Run it as root"
        )


def _unshare_flags() -> list[str]:
    flags = ["--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    return flags if os.geteuid() == 0 else ["--user", "--map-root-user", *flags]


class Namespaces:
    """A running set of namespaces; `pid` is its process 1 as the host sees it."""

    def __init__(self, owner: subprocess.Popen[str]) -> None:
        self._owner = owner
        self.pid = children_of(owner.pid)[0]

    @classmethod
    def start(cls, *, addresses: Sequence[str] = ()) -> Namespaces:
        """Makes the namespaces; the loopback interface inside gets the addresses.

        Raises RequirementMissing where the machine does not allow it.
        """
        require_namespaces()
        argv = ["unshare", *_unshare_flags(), "--", sys.executable, "-I", str(INIT), *addresses]
        # Ctrl-C on a terminal reaches the harness alone, which then stops things in order.
        owner = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert owner.stdout is not None
        if owner.stdout.readline().strip() != "ready":
            owner.kill()
            _, why = owner.communicate()
            raise ClusterError(f"the namespaces' process 1 ended ({owner.returncode}): {why.strip()}")
        return cls(owner)

    def argv(self, argv: Sequence[str]) -> list[str]:
        """Returns the command line that runs `argv` inside.

        The program is killed when nsenter ends, so that nothing outlives a killed harness half-way.
        """
        return enter_argv(self.pid, ["setpriv", "--pdeathsig", "KILL", *argv])

    def popen(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: int | IO[Any] | None = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        new_session: bool = True,
    ) -> InsideProcess:
        """Starts a program inside; `env` is added to this process's own environment.

        It keeps the caller's working folder. It is a session of its own, so that Ctrl-C on a terminal
        stops the harness and not, in no order, the components.
        """
        return InsideProcess(
            self.argv(argv),
            env={**os.environ, **(env or {})},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=new_session,
            text=True,
        )

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        input: str | None = None,
        check: bool = True,
        timeout_seconds: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program inside to its end and returns its output; a failure raises ClusterError."""
        done = subprocess.run(
            self.argv(argv),
            env={**os.environ, **(env or {})},
            input=input,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_seconds,
        )
        if check and done.returncode != 0:
            raise ClusterError(f"`{' '.join(argv)}` failed ({done.returncode}): {done.stderr.strip()}")
        return done

    def alive(self) -> bool:
        """True while the namespaces exist."""
        return self._owner.poll() is None

    def stop(self) -> None:
        """Ends every process inside; returns when the kernel has taken the namespaces down."""
        _kill(self.pid, signal.SIGKILL)
        self._owner.wait()
        for stream in (self._owner.stdin, self._owner.stdout, self._owner.stderr):
            if stream:
                stream.close()


def enter_argv(pid: int, argv: Sequence[str]) -> list[str]:
    """Returns the command line that runs `argv` in the namespaces of a process 1, in the working folder.

    nsenter into a mount namespace starts in its root folder, hence `env --chdir`.
    """
    user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
    enter = ["nsenter", "--target", str(pid), "--net", "--mount", "--pid", *user]
    return [*enter, "--", "env", f"--chdir={Path.cwd()}", *argv]
