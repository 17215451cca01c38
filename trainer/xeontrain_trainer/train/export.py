"""What a run leaves, written by rank 0 alone: a model that `from_pretrained` loads, and the metrics."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from typing import Any

from .durable import check_round, flush, flush_tree
from .environment import Environment


def save_model(model: Any, processor: Any, *, environment: Environment) -> str | None:
    """Write the model and its tokenizer (or image processor) to `model/` in the job's folder.

    Returns its path; None without storage. Written beside it, flushed to disk and renamed, so that the
    folder is whole whenever it is there.
    Raises SupersededError where a newer round stands in the job's folder.
    """
    if environment.job_dir is None:
        return None
    target = os.path.join(environment.job_dir, "model")
    partial, old = (os.path.join(environment.job_dir, f".model-{name}") for name in ("partial", "old"))
    for folder in (partial, old):
        shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(partial)
    model.save_pretrained(partial)
    processor.save_pretrained(partial)
    flush_tree(partial)
    check_round(environment)
    if os.path.exists(target):
        os.replace(target, old)
    os.replace(partial, target)
    flush(environment.job_dir)
    shutil.rmtree(old, ignore_errors=True)
    return target


def write_metrics(path: str | None, *, metrics: Mapping[str, float], model: str | None) -> None:
    """Leave `{"metrics": {...}, "model": path or null}` for the launcher, whole or not at all."""
    if path is None:
        return
    partial = f"{path}.partial"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump({"metrics": dict(metrics), "model": model}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
