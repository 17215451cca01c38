"""Reads a `Machine` from `/sys` and `/proc` under a root folder: `/` of this pod, or a recording.

Sources: kernel documentation of sysfs cputopology, cgroup v1 cpusets and cgroup v2 `cpuset.cpus.effective`,
`cpu.max`. Missing files, CPUs that are offline and sparse numbers are normal: what is unknown becomes one core
a CPU, socket 0, node 0. Host counts never stand in where a CPU set is in force.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from .model import Machine


class MachineError(Exception):
    """The CPUs of this machine cannot be read, or the granted set is empty."""


def read_machine(root: str = "/", *, cpus: Optional[Iterable[int]] = None) -> Machine:
    """The machine under `root`.

    `cpus` names the granted CPUs (a what-if over a recording). Without it they are the affinity mask of this
    process cut by its cpuset for `/`, and the cpuset files of the recording (else all online CPUs) elsewhere.
    Raises MachineError where no CPU is left.
    """
    raise NotImplementedError
