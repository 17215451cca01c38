"""This machine's CPUs, shared out to the workers without overlap."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from xeontrain_operator.cli.files import InputError

_SYSFS: Final = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Shares:
    """Each worker's CPUs, by number, and how many it asked for."""

    cpus: tuple[tuple[int, ...], ...]
    asked: float

    @property
    def is_short(self) -> bool:
        """Whether the workers get fewer CPUs than they asked for."""
        return any(len(share) < self.asked for share in self.cpus)


def share_out(ordered: Sequence[int], *, workers: int, asked_millis: int) -> Shares:
    """Cut the CPUs into disjoint shares of the asked size, or of an equal smaller one.

    `ordered`: the CPUs that this process may use, neighbours (threads of a core, cores of a node) together.
    Raises InputError where there are fewer CPUs than workers.
    """
    if len(ordered) < workers:
        raise InputError(
            f"{workers} workers need at least {workers} CPUs, and {len(ordered)} are free for this process: "
            "lower spec.workers"
        )
    size = max(1, min(-(-asked_millis // 1000), len(ordered) // workers))
    shares = tuple(tuple(sorted(ordered[n * size : (n + 1) * size])) for n in range(workers))
    return Shares(cpus=shares, asked=asked_millis / 1000)


def usable_cpus() -> list[int]:
    """Return the CPUs that this process may run on, those of a NUMA node and of a core side by side."""
    return sorted(os.sched_getaffinity(0), key=lambda cpu: (*_place(cpu), cpu))


def _place(cpu: int) -> tuple[int, int, int]:
    folder = _SYSFS / f"cpu{cpu}"
    nodes = [int(path.name[4:]) for path in folder.glob("node[0-9]*")]
    package = _number(folder / "topology" / "physical_package_id")
    return (package, min(nodes, default=0), _number(folder / "topology" / "core_id"))


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


def as_list(cpus: Iterable[int]) -> str:
    """Write CPU numbers as the kernel does: 0-3,8."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1][1:] = [cpu]
        else:
            parts.append([cpu])
    return ",".join("-".join(map(str, part)) for part in parts)
