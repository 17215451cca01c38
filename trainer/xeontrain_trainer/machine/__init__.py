"""The machine as the pod sees it: granted CPUs, quota, NUMA nodes, instructions, network interface, libraries.

    machine = read_machine()                       # this pod
    machine = read_machine("/path/to/a/recording") # a recorded /sys and /proc
"""

from __future__ import annotations

from .cpulist import format_cpus, parse_cpus
from .host import find_interface, find_library
from .model import Cpu, Machine
from .read import MachineError, read_machine

__all__ = [
    "Cpu",
    "Machine",
    "MachineError",
    "find_interface",
    "find_library",
    "format_cpus",
    "parse_cpus",
    "read_machine",
]
