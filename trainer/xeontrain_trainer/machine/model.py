"""What a machine looks like from inside the pod: the CPUs that may be used and how they are wired.

Pure data. A count of the host never stands in for the granted set: every list of CPUs here is either
the granted one (`Machine.cpus`) or named `online`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional


@dataclass(frozen=True)
class Cpu:
    """One logical CPU.

    `core`: the lowest CPU number among its sibling threads, so it is unique on the machine. `die`: number
    within the socket. `l3`: the lowest CPU number among those that share its level-3 cache, None where it has
    none or the kernel does not say. `efficient`: one of the slower cores of a hybrid machine.
    """

    number: int
    core: int
    socket: int
    node: int
    die: int = 0
    l3: Optional[int] = None
    efficient: bool = False

    def to_json(self) -> dict[str, Any]:
        """The CPU as plain JSON values."""
        return vars(self).copy()


@dataclass(frozen=True)
class Cache:
    """A cache of the first granted CPU. `kind`: Data, Instruction or Unified. `threads`: online CPUs that
    share it, granted or not."""

    level: int
    kind: str
    size_kib: int
    threads: int

    def to_json(self) -> dict[str, Any]:
        """The cache as plain JSON values."""
        return {"level": self.level, "kind": self.kind, "sizeKiB": self.size_kib, "threads": self.threads}


@dataclass(frozen=True)
class Machine:
    """The granted CPUs of this pod and what the plan and the judgement of exclusiveness need to know.

    `cpus`: granted and online, ordered by number. `online`: all CPUs online on the host. `quota_cpus`: the
    CFS quota in CPUs, None where there is none. `memory_nodes`: NUMA nodes that memory may come from.
    `features`: names as in `placement.cpuFeatures` (AVX2, AVX512F, AVX512VNNI, AVX512BF16, AMXBF16,
    AMXINT8), those that every granted CPU has. `mixed`: granted CPUs differ in model or features.
    """

    cpus: tuple[Cpu, ...]
    online: tuple[int, ...]
    quota_cpus: Optional[float]
    memory_nodes: tuple[int, ...]
    model: str
    features: tuple[str, ...]
    mixed: bool = False
    caches: tuple[Cache, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of the granted CPUs, ascending."""
        return tuple(cpu.number for cpu in self.cpus)

    @property
    def cores(self) -> tuple[tuple[Cpu, ...], ...]:
        """Granted sibling threads grouped by physical core, in the order of nodes and then of cores."""
        groups: dict[tuple[int, int], list[Cpu]] = {}
        for cpu in sorted(self.cpus, key=lambda cpu: (cpu.node, cpu.core, cpu.number)):
            groups.setdefault((cpu.node, cpu.core), []).append(cpu)
        return tuple(tuple(threads) for threads in groups.values())

    @property
    def instruction_set(self) -> str:
        """The best of AMX, AVX512_BF16, AVX512_VNNI, AVX512, AVX2 that every granted CPU has, else
        `baseline`."""
        for feature, name in INSTRUCTION_SETS:
            if feature in self.features:
                return name
        return "baseline"

    def to_json(self) -> dict[str, Any]:
        """The machine as plain JSON values, for `/status` and `explain`."""
        return {
            "model": self.model,
            "instructionSet": self.instruction_set,
            "features": list(self.features),
            "cpus": [cpu.to_json() for cpu in self.cpus],
            "online": list(self.online),
            "quotaCpus": self.quota_cpus,
            "memoryNodes": list(self.memory_nodes),
            "mixed": self.mixed,
            "caches": [cache.to_json() for cache in self.caches],
        }


# Names as in `placement.cpuFeatures`, with the kernel's flags.
FEATURE_FLAGS = (
    ("AVX2", "avx2"),
    ("AVX512F", "avx512f"),
    ("AVX512VNNI", "avx512_vnni"),
    ("AVX512BF16", "avx512_bf16"),
    ("AMXBF16", "amx_bf16"),
    ("AMXINT8", "amx_int8"),
)

INSTRUCTION_SETS = (
    ("AMXBF16", "AMX"),
    ("AVX512BF16", "AVX512_BF16"),
    ("AVX512VNNI", "AVX512_VNNI"),
    ("AVX512F", "AVX512"),
    ("AVX2", "AVX2"),
)
