"""Files that are whole or absent, and never written by a leftover of an earlier round.

Standard library only.
"""

from __future__ import annotations

import json
import os

from .environment import Environment


class SupersededError(RuntimeError):
    """A newer round of this job has begun: this process is a leftover and must not write any more."""


def check_round(environment: Environment) -> None:
    """Raise SupersededError where `round.json` of the job's folder holds a newer round than this rank's."""
    if environment.job_dir is None:
        return
    try:
        with open(os.path.join(environment.job_dir, "round.json"), encoding="utf-8") as file:
            newest = int(json.load(file)["round"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return
    if newest > environment.round:
        raise SupersededError(f"round {newest} has begun; this rank belongs to round {environment.round}")


def flush_tree(folder: str) -> None:
    """Flush a folder to disk, and let others read it: safetensors writes files for their owner alone."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            os.chmod(path, 0o644)
            flush(path)
        flush(parent)


def flush(path: str) -> None:
    """Flush a file, or a folder's list of names, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
