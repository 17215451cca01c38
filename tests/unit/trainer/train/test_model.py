"""The model as it is made ready: head, dropout, what is trained and how fast."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from xeontrain_trainer.train.config import Dataset, Hyperparameters, TrainingConfig
from xeontrain_trainer.train.errors import BadConfigError
from xeontrain_trainer.train.tasks import task_of

from tests.unit.trainer.train import jobs

CLASSIFY = task_of(TrainingConfig(task="text-classification", model="m", dataset=Dataset()))


def test_head_and_dropout(tiny_model: Path) -> None:
    """A head for the labels, the same for the same seed; the job's dropout in every layer of the model."""
    import torch
    from xeontrain_trainer.train.model import load_model

    labels = ("a", "b", "c")
    first, again, other = (
        load_model(str(tiny_model), task=CLASSIFY, labels=labels, dropout=0.25, seed=seed)
        for seed in (1, 1, 2)
    )
    heads = [model.classifier.weight for model in (first, again, other)]
    assert heads[0].shape == (3, 16)
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])
    dropouts = [module.p for module in first.modules() if isinstance(module, torch.nn.Dropout)]
    assert dropouts
    assert set(dropouts) == {0.25}
    assert first.config.id2label == {0: "a", 1: "b", 2: "c"}
    assert first.training


def test_a_models_own_dropout_stays(tiny_model: Path) -> None:
    """Where the job says nothing, the model's own dropout is used."""
    from xeontrain_trainer.train.model import load_model

    model = load_model(str(tiny_model), task=CLASSIFY, labels=("a", "b"), dropout=None, seed=1)
    assert model.config.hidden_dropout_prob == 0.1


def test_a_model_without_dropout(tiny_models: jobs.Models) -> None:
    """A job that asks a ResNet for dropout is told that there is none; 0 is what it has."""
    from xeontrain_trainer.train.model import load_model

    dataset = Dataset()
    task = task_of(TrainingConfig(task="image-classification", model="m", dataset=dataset))
    folder = str(tiny_models.resnet)
    load_model(folder, task=task, labels=("a", "b"), dropout=0, seed=1)
    with pytest.raises(BadConfigError, match=r"hyperparameters\.dropout: a resnet has no dropout"):
        load_model(folder, task=task, labels=("a", "b"), dropout=0.1, seed=1)


def test_no_model_for_the_task(tiny_model: Path, tmp_path: Path) -> None:
    """A folder whose config names no known model is the user's error, in one line."""
    from xeontrain_trainer.train.model import load_model

    shutil.copytree(tiny_model, tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text(json.dumps({"model_type": "none-such"}))
    with pytest.raises(BadConfigError, match=r"spec\.training\.model: .*none-such"):
        load_model(str(tmp_path / "model"), task=CLASSIFY, labels=("a", "b"), dropout=None, seed=1)


def test_parameters_without_gradient_are_frozen() -> None:
    """What the loss does not reach would make DDP wait for ever; it is frozen and named."""
    import torch
    from xeontrain_trainer.train.model import freeze_unused

    model = torch.nn.ModuleDict({"used": torch.nn.Linear(2, 1), "unused": torch.nn.Linear(2, 1)})
    frozen = freeze_unused(model, backward=lambda: model["used"](torch.ones(1, 2)).sum().backward())
    assert frozen == ["unused.weight", "unused.bias"]
    assert [name for name, tensor in model.named_parameters() if tensor.requires_grad] == [
        "used.weight",
        "used.bias",
    ]
    assert all(tensor.grad is None for tensor in model.parameters())


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("linear", [0, 0.5, 1, 0.75, 0.5, 0.25, 0]),
        ("constant", [0, 0.5, 1, 1, 1, 1, 1]),
        ("cosine", [0, 0.5, 1, 0.853553, 0.5, 0.146447, 0]),
    ],
)
def test_learning_rate(schedule: str, expected: list[float]) -> None:
    """The rate rises over the warm-up's share of the steps, then follows its schedule to the last step."""
    import torch
    from xeontrain_trainer.train.model import make_optimizer, make_schedule

    parameters = Hyperparameters(learning_rate=1.0, warmup_ratio=1 / 3, schedule=schedule, weight_decay=0.1)
    optimizer = make_optimizer(torch.nn.Linear(2, 2), parameters=parameters)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.0]
    rates = make_schedule(optimizer, parameters=parameters, total_steps=6)
    seen = []
    for _ in range(7):
        seen.append(rates.get_last_lr()[0])
        optimizer.step()
        rates.step()
    assert seen == pytest.approx(expected, abs=1e-6)
