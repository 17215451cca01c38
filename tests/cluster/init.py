"""Process 1 of the cluster's namespaces: says `ready`, buries orphans, ends when its stdin does.

Stdin is a pipe whose other end only the harness holds. However the harness ends (also by SIGKILL), the
pipe closes, this process ends, and the kernel ends every other process of the PID namespace with it.
Run as a plain script (`python -I`), so it imports nothing of the project.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import FrameType


def bury_orphans(_signal: int, _frame: FrameType | None) -> None:
    """Reaps what containerd's shims and daemons leave behind; nobody else in the namespace can."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def set_up(addresses: list[str]) -> None:
    """Gives the loopback interface its addresses and hides the host's /run behind an empty one."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in addresses:
        subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"], check=True)


def main() -> None:
    """Sets up, then waits for the end of stdin."""
    set_up(sys.argv[1:])
    signal.signal(signal.SIGCHLD, bury_orphans)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    print("ready", flush=True)
    while os.read(0, 4096):
        pass


if __name__ == "__main__":
    main()
