"""How the tests of tasks ask for samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from xeontrain_trainer.train.config import parse_training
from xeontrain_trainer.train.data import load_samples
from xeontrain_trainer.train.samples import Samples
from xeontrain_trainer.train.tasks import task_of

from tests.unit.trainer.train import jobs, tiny

Rows = Sequence[Mapping[str, Any]]


@pytest.fixture
def samples_of(tiny_models: jobs.Models, tmp_path: Path) -> Callable[..., Samples]:
    """A function from a task and its rows to the samples that are trained on; options are hyperparameters."""

    def make(task: str, rows: Rows, *, split: str = "train", **hyperparameters: Any) -> Samples:
        path = jobs.write_lines(tmp_path / "rows.jsonl", rows)
        model = tiny_models.gpt if task == "causal-language-modeling" else tiny_models.bert
        block = tiny.training(model, train=[path], evaluate=[path], **hyperparameters)
        block |= {"task": task, "dataset": {"files": {"train": [path], "eval": [path]}, "columns": {}}}
        prepared = tiny.prepare(block)
        made = task_of(parse_training(block))
        processor = made.load_processor(prepared.model_folder)
        return Samples.of(load_samples(prepared, split), task=made, processor=processor)

    return make
