"""Which caches of the libraries are moved, and where to."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from xeontrain_trainer.caches import moved_caches, scratch_folder


@pytest.mark.parametrize(
    ("environ", "made", "readonly", "expected"),
    [
        pytest.param({"HOME": "{}"}, ".cache", False, {}, id="writable-home"),
        pytest.param(
            {"HOME": "{}"}, "", True, {"HF_HOME": "{}/state/cache/huggingface"}, id="read-only-home"
        ),
        pytest.param({}, "", True, {}, id="no-home"),
        pytest.param(
            {"HOME": "{}"},
            ".cache/huggingface",
            True,
            {
                "HF_DATASETS_CACHE": "{}/state/cache/huggingface/datasets",
                "HF_MODULES_CACHE": "{}/state/cache/huggingface/modules",
            },
            id="a-read-only-model-cache-stays-first",
        ),
        pytest.param(
            {"HOME": "{}", "HF_HOME": "{}/.cache/huggingface", "HF_DATASETS_CACHE": "/mine"},
            ".cache/huggingface",
            True,
            {"HF_MODULES_CACHE": "{}/state/cache/huggingface/modules"},
            id="what-the-user-set-stays",
        ),
        pytest.param(
            {"HOME": "{}", "HF_HOME": "{}/writable/huggingface"}, "", True, {}, id="a-home-that-can-be-made"
        ),
        pytest.param(
            {"HOME": "/nowhere", "XDG_CACHE_HOME": "{}"},
            "",
            True,
            {"HF_HOME": "{}/state/cache/huggingface"},
            id="the-cache-folder-of-the-desktop",
        ),
    ],
)
def test_caches(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    made: str,
    readonly: bool,
    expected: dict[str, str],
) -> None:
    """What the user or the image set stays; what is unset moves only where the default cannot be written."""
    for folder in (made, "state", "writable"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    home = str(tmp_path)
    # Root may write anywhere, so what may be written is decided here.
    blocked = (home, f"{home}/.cache", f"{home}/.cache/huggingface") if readonly else ()
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) not in blocked)
    filled = {name: value.format(home) for name, value in environ.items()}
    assert moved_caches(filled, state_dir=f"{home}/state") == {
        name: value.format(home) for name, value in expected.items()
    }


def test_without_a_state_folder_the_caches_are_temporary(tmp_path: Path) -> None:
    """A trainer that no launcher has started has none."""
    assert scratch_folder(None) == os.path.join(tempfile.gettempdir(), "cache", "huggingface")
    assert scratch_folder(str(tmp_path)) == str(tmp_path / "cache" / "huggingface")
