"""Where models come from, and which cache folders are changed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from xeontrain_trainer.train import hub
from xeontrain_trainer.train.errors import MissingFileError


@pytest.mark.parametrize(
    ("environ", "read_only", "expected"),
    [
        ({}, [], set()),
        ({}, ["home"], {"HF_HOME"}),
        ({}, ["home", "home/huggingface"], {"HF_DATASETS_CACHE", "HF_MODULES_CACHE"}),
        ({"HF_HOME": "image"}, ["image"], {"HF_DATASETS_CACHE", "HF_MODULES_CACHE"}),
        ({"HF_HOME": "image"}, ["home"], set()),
        ({"HF_HOME": "image", "HF_DATASETS_CACHE": "mine"}, ["image"], {"HF_MODULES_CACHE"}),
    ],
    ids=[
        "writable-home",
        "read-only-home",
        "models-in-read-only-home",
        "read-only-image",
        "writable-image",
        "own-datasets",
    ],
)
def test_caches_move_only_where_they_must(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    read_only: list[str],
    expected: set[str],
) -> None:
    """What the user or the image set stays; what is unset moves only where the default cannot be written."""
    folders = {name: tmp_path / name for name in ("home", "image", "mine", "state")}
    for folder in folders.values():
        folder.mkdir()
    blocked = [str(tmp_path / name) for name in read_only]
    for folder in blocked:
        os.makedirs(folder, exist_ok=True)
    # Root may write anywhere, whatever the mode bits say, so the answer of the system is replaced.
    real = os.access
    monkeypatch.setattr(
        hub.os,
        "access",
        lambda path, mode: not str(path).startswith(tuple(blocked) or "\0") and real(path, mode),
    )
    given = {name: str(folders[folder]) for name, folder in environ.items()}
    names = {"XDG_CACHE_HOME": str(folders["home"]), **given}
    hub.set_cache_folders(names, state_dir=str(folders["state"]))
    changed = {name for name in names if name.startswith("HF_") and name not in given}
    assert changed == expected
    assert all(names[name].startswith(str(folders["state"])) for name in changed)
    assert all(names[name] == value for name, value in given.items())


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
