"""The training block: names, defaults and what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from xeontrain_operator.api.v1alpha1 import training
from xeontrain_trainer.train import config
from xeontrain_trainer.train.errors import BadConfigError, MissingFileError, UserError

FILES = {"files": {"train": ["/data/train.csv"]}}
SMALLEST = {"task": "text-classification", "model": "bert-base-uncased", "dataset": FILES}


def test_defaults_are_those_of_the_resource() -> None:
    """What a job leaves out has the value that the resource documents."""
    parsed = config.parse_training(SMALLEST)
    assert parsed == config.TrainingConfig(
        task="text-classification",
        model="bert-base-uncased",
        dataset=config.Dataset(files=config.DataFiles(train=("/data/train.csv",))),
    )
    assert parsed.hyperparameters == config.Hyperparameters(
        epochs=1, batch_size=16, accumulation_steps=1, learning_rate=5e-5, weight_decay=0.01,
        warmup_ratio=0.1, schedule="linear", max_grad_norm=1.0, max_length=128, seed=42,
    )  # fmt: skip
    assert (parsed.precision, parsed.compile, parsed.ipex) == ("Auto", False, "Auto")


def test_every_field_is_read() -> None:
    """Each name of the resource arrives in its field; null means unset."""
    parsed = config.parse_training(
        {
            **SMALLEST,
            "modelRevision": "main",
            "dataset": {
                "hub": {
                    "name": "stanfordnlp/imdb",
                    "config": "plain_text",
                    "revision": None,
                    "evalSplit": "test",
                },
                "columns": {"text": "a", "textPair": "b", "label": "c"},
            },
            "hyperparameters": {"maxSteps": 7, "dropout": 0, "warmupRatio": 0.2},
            "precision": "BF16",
            "compile": True,
            "ipex": "Disabled",
        }
    )
    assert parsed.dataset == config.Dataset(
        hub=config.HubDataset(name="stanfordnlp/imdb", config="plain_text", eval_split="test"),
        columns=config.Columns(text="a", text_pair="b", label="c"),
    )
    assert parsed.hyperparameters == config.Hyperparameters(max_steps=7, dropout=0, warmup_ratio=0.2)
    assert (parsed.model_revision, parsed.precision, parsed.compile, parsed.ipex) == (
        "main",
        "BF16",
        True,
        "Disabled",
    )


@pytest.mark.parametrize(
    ("ours", "resource"),
    [
        (config.TrainingConfig, training.Training),
        (config.Dataset, training.Dataset),
        (config.HubDataset, training.HubDataset),
        (config.DataFiles, training.DataFiles),
        (config.Columns, training.Columns),
        (config.Hyperparameters, training.Hyperparameters),
    ],
    ids=lambda kind: kind.__name__ if kind.__module__.startswith("xeontrain_trainer") else "",
)
def test_fields_are_those_of_the_resource(ours: type, resource: type[BaseModel]) -> None:
    """Every field that the operator writes into the training document is read, with the same default."""
    fields = {item.name: item for item in dataclasses.fields(ours)}
    assert fields.keys() == resource.model_fields.keys()
    for name, field in resource.model_fields.items():
        if not field.is_required() and not isinstance(field.default, BaseModel):
            assert fields[name].default == (
                field.default if field.default is not None else fields[name].default
            )
            assert (field.default is None) == (fields[name].default in (None, ()))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"task": "summarization"}, "spec.training.task"),
        ({"model": None}, "spec.training.model"),
        ({"optimiser": "SGD"}, "spec.training.optimiser"),
        ({"dataset": {}}, "spec.training.dataset"),
        ({"dataset": {**FILES, "hub": {"name": "x"}}}, "spec.training.dataset"),
        ({"dataset": {"files": {"train": []}}}, "spec.training.dataset.files.train"),
        ({"dataset": {"hub": {}}}, "spec.training.dataset.hub.name"),
        ({"hyperparameters": {"lr": 1}}, "spec.training.hyperparameters.lr"),
        ({"hyperparameters": {"batchSize": 0}}, "spec.training.hyperparameters.batchSize"),
        ({"hyperparameters": {"epochs": 1.5}}, "spec.training.hyperparameters.epochs"),
        ({"hyperparameters": {"schedule": "step"}}, "spec.training.hyperparameters.schedule"),
        ({"precision": "FP16"}, "spec.training.precision"),
        ({"ipex": "yes"}, "spec.training.ipex"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_refusals_name_the_field(change: dict[str, Any], field: str) -> None:
    """What a document gets wrong is a user's error that begins with the field's full name."""
    with pytest.raises(BadConfigError) as raised:
        config.parse_training({**SMALLEST, **change})
    assert raised.value.field == field
    assert str(raised.value).startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, MissingFileError),
        ("{", BadConfigError),
        ("[]", BadConfigError),
        (json.dumps({"contract": 99, "training": SMALLEST}), BadConfigError),
    ],
    ids=["absent", "broken", "no-object", "other-contract"],
)
def test_unusable_documents(tmp_path: Path, content: str | None, error: type[UserError]) -> None:
    """A training document that is not there or not of this contract ends the rank with a sentence."""
    path = tmp_path / "training.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(error):
        config.read_document(str(path))


def test_document_is_read(tmp_path: Path) -> None:
    """The training block of a whole document is what is parsed."""
    path = tmp_path / "training.json"
    path.write_text(json.dumps({"contract": 1, "jobName": "a", "training": SMALLEST, "checkpoint": {}}))
    assert config.read_document(str(path)).training == config.parse_training(SMALLEST)
