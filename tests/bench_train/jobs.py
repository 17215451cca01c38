"""The same work as a XeonTrainJob, for `xeontrain run` and for pods."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench_train.process import Command

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
DATA = Path(__file__).resolve().parents[2] / "examples" / "data"
TRAIN_FILE, EVAL_FILE = DATA / "mail-train.csv", DATA / "mail-eval.csv"
JOB_NAME = "bench"
Document = dict[str, Any]


def job(*, workers: int, cpu: int, **spec: Any) -> Document:
    """A job of so many workers of `cpu` CPUs each."""
    return {
        "apiVersion": "xeontrain.dev/v1alpha1",
        "kind": "XeonTrainJob",
        "metadata": {"name": JOB_NAME},
        "spec": {"workers": workers, "resources": {"cpu": cpu, "memory": "4Gi"}, **spec},
    }


def mail_training(
    *, batch_size: int, length: int, max_steps: int | None = None, evaluate: bool = False
) -> Document:
    """The built-in task on the example's mail: MiniLM tells spam from ham."""
    files = {"train": [str(TRAIN_FILE)]} | ({"eval": [str(EVAL_FILE)]} if evaluate else {})
    steps = {"maxSteps": max_steps, "epochs": 100} if max_steps else {"epochs": 1}
    return {
        "task": "text-classification",
        "model": MODEL,
        "dataset": {"files": files},
        "hyperparameters": {
            "batchSize": batch_size,
            "maxLength": length,
            "learningRate": 1e-4,
            **steps,
        },
    }


def picture_training(folder: Path, *, max_steps: int) -> Document:
    """The built-in task on the pictures and the model that scripts/pictures.py wrote."""
    return {
        "task": "image-classification",
        "model": str(folder / "model"),
        "dataset": {"files": {"train": [str(folder / "train" / "*" / "*.png")]}},
        "hyperparameters": {"batchSize": 16, "learningRate": 1e-4, "maxSteps": max_steps, "epochs": 100},
    }


def local_run(document: Document, *, folder: Path) -> Command:
    """`xeontrain run` of the job, with all that it leaves in `folder`."""
    file = folder / "job.yaml"
    # JSON is YAML.
    file.write_text(json.dumps(document, indent=2), encoding="utf-8")
    return Command(
        (sys.executable, "-m", "xeontrain_operator", "run", str(file), "--output", str(folder / "out"))
    )


def script_job(argv: Sequence[str], *, ranks: int, cpus: int) -> Document:
    """A job of one worker whose ranks run a Python script of the user's own."""
    return job(workers=1, cpu=cpus, ranksPerWorker=ranks, command=["python3", *argv])
