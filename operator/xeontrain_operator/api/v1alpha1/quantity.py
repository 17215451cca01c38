"""Quantities of CPU and memory: which are taken, and what they are worth.

The CRD's rules use only what every CEL library has, so Kubernetes' quantity() is replaced by patterns; a
quantity here is therefore a plain number with at most one suffix.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

CPU_PATTERN: Final = r"^([0-9]{1,4}([.][0-9]{1,3})?|[0-9]{1,7}m)$"
WHOLE_CPU_PATTERN: Final = r"^([0-9]{1,4}([.]0{1,3})?|[0-9]{1,4}000m)$"
ZERO_CPU_PATTERN: Final = r"^0*([.]0*)?m?$"
CPU_RULE: Final = (
    "type(self) == int ? self >= 1 && self <= 4096 : "
    f"self.matches('{CPU_PATTERN}') && !self.matches('{ZERO_CPU_PATTERN}')"
)
CPU_MESSAGE: Final = 'write a number of CPUs, such as 8, "8" or "8000m"'
# A size with digits, at most one point, and one suffix; not zero.
MEMORY_PATTERN: Final = r"^[0-9]{1,15}([.][0-9]{1,3})?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$"
ZERO_MEMORY_PATTERN: Final = r"^[0.]*[A-Za-z]*$"
MEMORY_RULE: Final = (
    "type(self) == int ? self >= 1 : "
    f"self.matches('{MEMORY_PATTERN}') && !self.matches('{ZERO_MEMORY_PATTERN}')"
)
MEMORY_MESSAGE: Final = "write a size, such as 16Gi"

_SUFFIXES: Final = {
    "": 1,
    **{unit: 1000 ** (power + 1) for power, unit in enumerate(("k", "M", "G", "T", "P"))},
    **{f"{unit}i": 1024 ** (power + 1) for power, unit in enumerate(("K", "M", "G", "T", "P"))},
}


def cpu_millis(value: int | str) -> int:
    """Return a CPU quantity in thousandths of a CPU; ValueError where it is none."""
    text = str(value)
    if not re.match(CPU_PATTERN, text):
        raise ValueError(f"{text!r} is no number of CPUs: {CPU_MESSAGE}")
    if text.endswith("m"):
        return int(text[:-1])
    return int(Decimal(text) * 1000)


def memory_bytes(value: int | str) -> int:
    """Return a memory quantity in bytes, rounded up; ValueError where it is none."""
    text = str(value)
    if not re.match(MEMORY_PATTERN, text):
        raise ValueError(f"{text!r} is no size: {MEMORY_MESSAGE}")
    number = text.rstrip("KMGTPkiB")
    scaled = Decimal(number) * _SUFFIXES[text[len(number) :]]
    return int(scaled.to_integral_value(rounding="ROUND_CEILING"))
