"""What torch.compile needs: a compiler, headers, a place for its output. Standard library only."""

from __future__ import annotations

import hashlib
import os
import shutil
import sysconfig
from collections.abc import Mapping

from .config import TrainingConfig
from .environment import Environment
from .errors import BadConfigError

_CACHE = "TORCHINDUCTOR_CACHE_DIR"


def compile_environment(
    config: TrainingConfig,
    *,
    environment: Environment,
    environ: Mapping[str, str],
    cpuinfo: str = "/proc/cpuinfo",
    headers: str | None = None,
) -> dict[str, str]:
    """The variables that torch must find where the job wants its model compiled; the user's own stay.

    The compiler's output is kept in the job's folder, or else in the pod, so that a rank that starts again
    need not wait for it. Raises BadConfigError where there is no compiler.
    """
    if not config.compile:
        return {}
    problem = _what_is_missing(environ, headers=headers or sysconfig.get_path("include"))
    if problem:
        raise BadConfigError(
            "spec.training.compile",
            cause=f"torch.compile needs a C++ compiler and Python's headers, and {problem}",
            remedy="Use a trainer image that was built with COMPILER_PACKAGES, or write compile: false",
        )
    folder = environment.job_dir or environment.state_dir
    if folder is None or _CACHE in environ:
        return {}
    return {_CACHE: os.path.join(folder, "compiled", _cpu_kind(cpuinfo))}


def _what_is_missing(environ: Mapping[str, str], *, headers: str) -> str | None:
    """In words; None where all is there. What is compiled includes Python.h."""
    compiler = environ.get("CXX", "g++")
    if shutil.which(compiler, path=environ.get("PATH")) is None:
        return f"there is no {compiler} in this image"
    if not os.path.exists(os.path.join(headers, "Python.h")):
        return f"there is no {headers}/Python.h in this image"
    return None


def _cpu_kind(cpuinfo: str) -> str:
    """A name for CPUs of one kind: what is compiled for one may be no program for another."""
    try:
        with open(cpuinfo, encoding="utf-8") as file:
            first = file.read().split("\n\n")[0].splitlines()
    except OSError:
        first = []
    known = [line for line in first if line.startswith(("model name", "flags"))]
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]
