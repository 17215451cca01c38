"""What the ranks print, out of the launchers' logs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

_RANK_MARK: Final = b"[rank "
_LARGEST_READ: Final = 1 << 20


class RankOutput:
    """Follows logs; a line counts once it is whole."""

    def __init__(self, logs: Iterable[Path]) -> None:
        self._offsets = dict.fromkeys(logs, 0)

    def new_lines(self) -> list[str]:
        """Return the ranks' lines since the last look, worker by worker."""
        return [line for log in self._offsets for line in self._of(log)]

    def _of(self, log: Path) -> list[str]:
        try:
            with log.open("rb") as file:
                file.seek(self._offsets[log])
                data = file.read(_LARGEST_READ)
        except OSError:
            return []
        # A line longer than a whole look is shown in pieces, or the look would never get past it.
        end = data.rfind(b"\n") + 1 or (len(data) if len(data) == _LARGEST_READ else 0)
        self._offsets[log] += end
        lines = data[:end].splitlines()
        return [line.decode(errors="replace") for line in lines if line.startswith(_RANK_MARK)]
