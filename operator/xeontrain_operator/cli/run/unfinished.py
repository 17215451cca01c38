"""A run that ended without a verdict, by Ctrl-C or a power cut, and the next one that goes on with it."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Final

from xeontrain_operator.api.v1alpha1 import XeonTrainJob

_NAME: Final = "unfinished.json"
_CHECKPOINTS: Final = "checkpoints"
_PREFIX: Final = "step-"


def remember(folder: Path, *, job: XeonTrainJob) -> None:
    """Keep the run's UID in the output folder until `forget`. Raises OSError."""
    text = json.dumps({"uid": job.metadata.uid, "work": _work(job)})
    (folder / _NAME).write_text(text + "\n", encoding="utf-8")


def recall(folder: Path, *, job: XeonTrainJob) -> str | None:
    """Return the UID of the run that the folder holds unfinished, where the job asks for the same work."""
    try:
        found = json.loads((folder / _NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    same = isinstance(found, dict) and found.get("work") == _work(job) and isinstance(found.get("uid"), str)
    return str(found["uid"]) if same else None


def forget(folder: Path) -> None:
    """The run has its verdict: the next one begins anew."""
    with contextlib.suppress(OSError):
        (folder / _NAME).unlink()


def last_checkpoint(job_folder: Path) -> int | None:
    """Return the step of the newest checkpoint in a job's folder; None where there is none."""
    names = [path.name for path in job_folder.glob(f"{_CHECKPOINTS}/{_PREFIX}*")]
    steps = [int(name[len(_PREFIX) :]) for name in names if name[len(_PREFIX) :].isdecimal()]
    return max(steps, default=None)


def _work(job: XeonTrainJob) -> str:
    """What is done, by a hash: how many workers do it, and on what, may change from run to run."""
    spec = job.spec.model_dump(mode="json", include={"training", "command", "args"})
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()
