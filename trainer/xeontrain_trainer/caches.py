"""Where the libraries of Hugging Face keep their caches.

Standard library only: the launcher decides it for any image, and the trainer where no launcher has.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Optional


def moved_caches(environ: Mapping[str, str], *, state_dir: Optional[str]) -> dict[str, str]:
    """HF_HOME or the dataset caches, moved to a folder of ours where the usual place cannot be written.

    A model cache that is there but read-only (in the image) stays first: only what must be written is moved.
    Values that the user set stay.
    """
    cache = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME") or "/", ".cache")
    home = environ.get("HF_HOME") or os.path.join(cache, "huggingface")
    if can_write(home):
        return {}
    moved = scratch_folder(state_dir)
    if "HF_HOME" not in environ and not os.path.isdir(home):
        return {"HF_HOME": moved}
    wanted = {
        "HF_DATASETS_CACHE": os.path.join(moved, "datasets"),
        "HF_MODULES_CACHE": os.path.join(moved, "modules"),
    }
    return {name: value for name, value in wanted.items() if name not in environ}


def scratch_folder(state_dir: Optional[str]) -> str:
    """The folder that takes the place of a cache that cannot be written."""
    return os.path.join(
        state_dir if state_dir and can_write(state_dir) else _temporary_folder(), "cache", "huggingface"
    )


def _temporary_folder() -> str:
    # Brings half the compression libraries with it, which no launcher should wait for.
    import tempfile

    return tempfile.gettempdir()


def can_write(folder: str) -> bool:
    """Whether the folder can be written, or made."""
    while not os.path.exists(folder):
        folder = os.path.dirname(folder) or "/"
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)
