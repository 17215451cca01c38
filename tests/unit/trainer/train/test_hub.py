"""Where models come from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from xeontrain_trainer.train import hub
from xeontrain_trainer.train.errors import MissingFileError


def test_a_folder_is_used_as_it_is(tiny_model: Path) -> None:
    """The path of a model needs neither cache nor network."""
    assert hub.model_folder(str(tiny_model), revision=None, state_dir=None) == str(tiny_model)


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_half_a_model(tiny_model: Path, tmp_path: Path, missing: str) -> None:
    """A folder without config or weights is told before anything is loaded."""
    shutil.copytree(tiny_model, tmp_path / "model")
    (tmp_path / "model" / missing).unlink()
    with pytest.raises(MissingFileError, match=missing):
        hub.model_folder(str(tmp_path / "model"), revision=None, state_dir=None)


@pytest.mark.parametrize("name", ["/models/none", "./none"])
def test_no_such_folder(name: str) -> None:
    """What looks like a path is never asked of the Hub."""
    with pytest.raises(MissingFileError, match="there is no folder"):
        hub.model_folder(name, revision=None, state_dir=None)


@pytest.mark.parametrize(
    ("name", "text"),
    [("bert-base-uncased", "the Hub cannot be reached"), ("a/b/c", "the Hub has no model")],
    ids=["unreachable", "impossible"],
)
def test_models_that_cannot_be_had(name: str, text: str) -> None:
    """Without network and cache the message says which field, why, and three ways out."""
    with pytest.raises(MissingFileError, match=text) as raised:
        hub.model_folder(name, revision=None, state_dir=None)
    assert raised.value.field == "spec.training.model"
