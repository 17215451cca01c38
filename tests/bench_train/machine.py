"""What was measured on: the machine as its kernel names it, and the versions of what ran."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from xeontrain_trainer.machine import format_cpus, read_machine

NATIVE_BF16 = frozenset({"avx512_bf16", "amx_bf16"})
VERSIONS = ("torch", "transformers", "accelerate")


@dataclass(frozen=True)
class Host:
    """The machine and the software. `cpus`: those that the contenders run on, which hold `cores` cores."""

    model: str
    family: str
    instruction_set: str
    native_bf16: bool
    virtual: bool
    cpus: tuple[int, ...]
    cores: int
    online: int
    memory_gib: int
    kernel: str
    versions: dict[str, str]

    @classmethod
    def here(cls) -> Host:
        """This machine, as far as this process may use it."""
        machine = read_machine()
        cpuinfo = _cpuinfo()
        flags = set(cpuinfo.get("flags", "").split())
        return cls(
            model=machine.model or "unknown processor",
            family="/".join(cpuinfo.get(key, "?") for key in ("cpu family", "model", "stepping")),
            instruction_set=machine.instruction_set,
            native_bf16=bool(flags & NATIVE_BF16),
            virtual="hypervisor" in flags,
            cpus=machine.numbers,
            cores=len(machine.cores),
            online=os.cpu_count() or len(machine.numbers),
            memory_gib=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 30,
            kernel=os.uname().release,
            versions={name: version(name) for name in VERSIONS},
        )

    @property
    def number_formats(self) -> tuple[str, ...]:
        """What the cores multiply: BF16 only where they have it in hardware."""
        return ("FP32", "BF16") if self.native_bf16 else ("FP32",)

    def sentence(self) -> str:
        """The machine in words."""
        virtual = ", virtual machine" if self.virtual else ""
        programs = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return (
            f"{self.model} (family/model/stepping {self.family}{virtual}, {self.instruction_set}), "
            f"CPUs {format_cpus(self.cpus)} of {self.online}, {self.memory_gib} GiB, Linux {self.kernel}; "
            f"{programs}"
        )

    def document(self) -> dict[str, object]:
        """The same for programs."""
        return asdict(self)


def _cpuinfo(path: str = "/proc/cpuinfo") -> dict[str, str]:
    """The fields of the first processor."""
    first = Path(path).read_text(encoding="utf-8").partition("\n\n")[0]
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}
