"""Build contexts that are made on this machine: a Debian system, the pause program, a model cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.cluster import host_config, settings
from tests.cluster.errors import ComponentFailed
from tests.cluster.go_build import say

# What a container never reads; a third of a minimal Debian.
UNUSED = (
    *("var/cache/apt", "var/lib/apt/lists", "var/log", "var/cache/debconf"),
    *("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale"),
)
BASE_PACKAGES = ("ca-certificates", "python3")


def debian_context(folder: Path, *, suite: str, log: Path) -> None:
    """Writes `rootfs.tar`, a minimal Debian with Python, into the folder; takes about a minute."""
    root = folder / "rootfs"
    mirror = host_config.host_debian_mirror()
    argv = [
        *("unshare", "--mount", "--", "debootstrap", "--variant=minbase"),
        *(f"--include={','.join(BASE_PACKAGES)}", suite, str(root)),
        # A suite newer than this machine's debootstrap has no script there; sid's serves all of Debian.
        *(mirror or "", "sid"),
    ]
    say(f"debootstrap {suite}")
    _run(argv, log=log, env={"DEBIAN_FRONTEND": "noninteractive"})
    for name in UNUSED:
        _empty(root / name)
    archive = ["tar", "--sort=name", "--mtime=@0", "--numeric-owner", "-C", str(root), "-cf"]
    _run([*archive, str(folder / "rootfs.tar"), "."], log=log)
    shutil.rmtree(root)


def _empty(folder: Path) -> None:
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def pause_context(folder: Path, *, log: Path) -> None:
    """Compiles the pause program into the folder."""
    source = Path(__file__).with_name("pause.c")
    _run(["gcc", "-Os", "-static", "-s", "-o", str(folder / "pause"), str(source)], log=log)


def hub_context(folder: Path, *, log: Path) -> None:
    """Fills `hub` in the folder with the example's model, as a Hugging Face cache."""
    hub = folder / "hub"
    argv = [sys.executable, "-m", "tools.hub_cache"]
    _run(argv, log=log, env={"HF_HOME": str(hub)}, cwd=settings.REPOSITORY)
    # Pods run as another user, read-only.
    _run(["chmod", "-R", "a+rX", str(hub)], log=log)


def _run(
    argv: Sequence[str], *, log: Path, env: dict[str, str] | None = None, cwd: Path | None = None
) -> None:
    with log.open("a") as out:
        done = subprocess.run(
            argv, stdout=out, stderr=out, env={**os.environ, **(env or {})}, cwd=cwd, check=False
        )
    if done.returncode != 0:
        raise ComponentFailed(f"`{argv[0]}` failed ({done.returncode})", log=log)
