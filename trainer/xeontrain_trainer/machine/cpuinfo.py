"""Model name and instruction flags of each CPU, from `/proc/cpuinfo`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CpuInfo:
    """`flags`: the kernel's names, `amx_bf16`, `avx512_bf16`; only what the kernel has enabled is listed
    there."""

    model: str
    flags: frozenset[str]


def parse_cpuinfo(text: str) -> dict[int, CpuInfo]:
    """One entry a CPU number. Blocks without a `processor` line are left out."""
    infos: dict[int, CpuInfo] = {}
    shared_flags: dict[str, frozenset[str]] = {}
    for block in text.split("\n\n"):
        fields = {}
        for line in block.splitlines():
            key, colon, value = line.partition(":")
            if colon:
                fields[key.strip()] = value.strip()
        number = fields.get("processor", "")
        if number.isascii() and number.isdigit() and len(number) < 20:
            flags = fields.get("flags", fields.get("Features", ""))
            # The line is the same for all CPUs of most machines: one set serves them all.
            known = shared_flags.setdefault(flags, frozenset(flags.split()))
            infos[int(number)] = CpuInfo(model=_printable(fields.get("model name", "")), flags=known)
    return infos


def _printable(name: str) -> str:
    """The name without what would steer a terminal or break XML, and at most as long as a line."""
    return "".join(letter for letter in name if letter.isprintable())[:120]
