"""The jobs of examples/ as they stand, on their real data, for a few steps and with tiny models."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from xeontrain_trainer import contract

from tests.unit.trainer.train import jobs, scenarios
from tests.unit.trainer.train.ranks import run_ranks, succeeded
from tools import make_example
from tools.make_example import Example

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Expected:
    """The tiny model that stands for the example's, and what transformers loads of the result."""

    model: str
    auto_model: str
    metrics: frozenset[str]


EXPECTED: Mapping[str, Expected] = {
    "text-classification": Expected(
        "bert", "AutoModelForSequenceClassification", frozenset({"accuracy", "f1"})
    ),
    "token-classification": Expected(
        "bert", "AutoModelForTokenClassification", frozenset({"accuracy", "f1", "precision", "recall"})
    ),
    "question-answering": Expected("bert", "AutoModelForQuestionAnswering", frozenset({"exactMatch", "f1"})),
    "image-classification": Expected(
        "resnet", "AutoModelForImageClassification", frozenset({"accuracy", "f1"})
    ),
    "causal-language-modeling": Expected("gpt", "AutoModelForCausalLM", frozenset({"perplexity"})),
}


def training_of(example: Example, folder: Path, *, model: Path) -> dict[str, Any]:
    """The example's training block with its data in `folder`, for `model`, which takes 32 tokens."""
    *config_maps, job = yaml.load_all(example.path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    for item in config_maps:
        for name, content in item["binaryData"].items():
            (folder / name).write_bytes(base64.b64decode(content))
    training = job["spec"]["training"]
    files = {
        split: [pattern.replace("/data", str(folder), 1) for pattern in patterns]
        for split, patterns in training["dataset"]["files"].items()
    }
    hyperparameters = {
        **training["hyperparameters"],
        "learningRate": float(training["hyperparameters"]["learningRate"]),
        "maxSteps": 4,
        "maxLength": 32,
    }
    dataset = {**training["dataset"], "files": files}
    return {**training, "model": str(model), "dataset": dataset, "hyperparameters": hyperparameters}


@pytest.mark.parametrize("example", make_example.ALL, ids=lambda example: example.name)
def test_trains_and_leaves_a_model(tiny_models: jobs.Models, tmp_path: Path, example: Example) -> None:
    """Four steps in two ranks: finite losses, the task's metrics, and a model that transformers loads."""
    import transformers

    task = yaml.safe_load(example.training)["task"]
    expected = EXPECTED[task]
    training = training_of(example, tmp_path, model=getattr(tiny_models, expected.model))
    document = {"contract": contract.CONTRACT_VERSION, "training": training}
    (tmp_path / "training.json").write_text(json.dumps(document))
    (tmp_path / "job").mkdir()
    environ = {
        contract.ENV_TRAINING_FILE: str(tmp_path / "training.json"),
        contract.ENV_JOB_DIR: str(tmp_path / "job"),
        contract.ENV_METRICS_FILE: str(tmp_path / "metrics.json"),
    }
    ended = run_ranks(scenarios.train, world_size=2, environ=environ)
    assert succeeded(ended) == [0, 0], ended[0].stderr
    assert "Warning" not in ended[0].stderr + ended[1].stderr
    metrics = json.loads((tmp_path / "metrics.json").read_text())["metrics"]
    assert metrics.keys() >= expected.metrics | {"evalLoss", "trainLoss", "trainSamples"}
    assert metrics["steps"] == 4
    assert 0 < metrics["trainLoss"] < 10
    folder = tmp_path / "job" / "model"
    model = getattr(transformers, expected.auto_model).from_pretrained(folder)
    processor = transformers.AutoTokenizer if task != "image-classification" else _ImageProcessor
    assert processor.from_pretrained(folder)
    assert model.config.architectures[0] == type(model).__name__


class _ImageProcessor:
    @staticmethod
    def from_pretrained(folder: Path) -> Any:
        from transformers import AutoImageProcessor

        return AutoImageProcessor.from_pretrained(folder, backend="pil")
