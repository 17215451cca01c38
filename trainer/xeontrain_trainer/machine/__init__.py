"""The machine as the pod sees it: granted CPUs, quota, NUMA nodes, instructions, network interface,
libraries.

machine = read_machine()                       # this pod
machine = read_machine("/path/to/a/recording") # a folder or a tar with a recorded /sys and /proc
"""

from __future__ import annotations

from .cpulist import format_cpus, parse_cpus
from .host import (
    INTEL_OPENMP_NAMES,
    TCMALLOC_NAMES,
    find_interface,
    find_library,
    interface_names,
    missing_preloads,
    split_preload,
)
from .model import Cache, Cpu, Machine
from .read import MachineError, count_oom_kills, open_tree, read_machine

__all__ = [
    "INTEL_OPENMP_NAMES",
    "TCMALLOC_NAMES",
    "Cache",
    "Cpu",
    "Machine",
    "MachineError",
    "count_oom_kills",
    "find_interface",
    "find_library",
    "format_cpus",
    "interface_names",
    "missing_preloads",
    "open_tree",
    "parse_cpus",
    "read_machine",
    "split_preload",
]
