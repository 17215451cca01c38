"""The kernel's list format of CPUs and NUMA nodes: `0-3,8,10-14:2`."""

from __future__ import annotations

from collections.abc import Iterable

# Far above any machine; a larger number is rubbish, and a range up to it would fill the memory.
LARGEST = 1 << 16


def parse_cpus(text: str) -> tuple[int, ...]:
    """Numbers of a list such as `0-3,8`, ascending without repeats; an empty or blank text is the empty list.

    Strides (`0-30:2`, `0-30:1/2`) are read too. Raises ValueError naming the part that is not a list.
    """
    numbers: set[int] = set()
    for part in text.strip().strip("\x00").split(","):
        if part.strip():
            numbers.update(_parse_part(part.strip()))
    return tuple(sorted(numbers))


def format_cpus(cpus: Iterable[int]) -> str:
    """The shortest list of these numbers, `0-3,8`; empty text for none."""
    runs: list[list[int]] = []
    for number in sorted(set(cpus)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _parse_part(part: str) -> Iterable[int]:
    """One element: a number, a range, or a range with `:used/group` (the first `used` of every `group`)."""
    span, _, stride = part.partition(":")
    first, dash, last = span.partition("-")
    try:
        start, end = int(first), int(last) if dash else int(first)
        used, group = _parse_stride(stride)
    except ValueError:
        raise ValueError(f"{part!r} is not part of a CPU list such as 0-3,8") from None
    if start < 0 or end < start or end > LARGEST:
        raise ValueError(f"{part!r} is not part of a CPU list such as 0-3,8")
    return (number for number in range(start, end + 1) if (number - start) % group < used)


def _parse_stride(text: str) -> tuple[int, int]:
    """(used, group) of `1/2`, of `2` (every second) or of nothing."""
    if not text:
        return 1, 1
    used, slash, group = text.partition("/")
    pair = (int(used), int(group)) if slash else (1, int(used))
    if min(pair) < 1:
        raise ValueError(text)
    return pair
