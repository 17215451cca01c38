"""What a run leaves: whole or not at all, and never from a round that is over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from xeontrain_trainer.train.durable import SupersededError
from xeontrain_trainer.train.environment import Environment
from xeontrain_trainer.train.export import save_model, write_metrics


class Part:
    """A model or tokenizer that writes one file."""

    def __init__(self, name: str, *, content: str = "", fails: bool = False) -> None:
        self.name, self.content, self.fails = name, content, fails

    def save_pretrained(self, folder: str) -> None:
        (Path(folder) / self.name).write_text(self.content)
        if self.fails:
            raise OSError("no space left on device")


def environment(folder: Path | None, *, round_number: int = 3) -> Environment:
    environ = {"XEONTRAIN_ROUND": str(round_number)}
    return Environment.from_environ(environ | ({"XEONTRAIN_JOB_DIR": str(folder)} if folder else {}))


def save(
    folder: Path | None, *, content: str = "new", fails: bool = False, round_number: int = 3
) -> str | None:
    parts: tuple[Any, Any] = (Part("weights", content=content), Part("tokenizer", fails=fails))
    return save_model(*parts, environment=environment(folder, round_number=round_number))


def test_model_replaces_an_older_one(tmp_path: Path) -> None:
    """A round after a failed one writes the model again; nothing else is left in the folder."""
    for content in ("old", "new"):
        assert save(tmp_path, content=content) == str(tmp_path / "model")
    assert (tmp_path / "model" / "weights").read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_half_a_model_never_has_the_name(tmp_path: Path) -> None:
    """A write that fails leaves the model of before, and is cleaned up by the next."""
    save(tmp_path, content="old")
    with pytest.raises(OSError, match="no space"):
        save(tmp_path, fails=True)
    assert (tmp_path / "model" / "weights").read_text() == "old"
    save(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize(
    ("content", "refused"),
    [({"round": 4}, True), ({"round": 3}, False), ({"round": 2}, False), (None, False)],
    ids=["newer", "own", "older", "none"],
)
def test_a_newer_round_forbids_writing(tmp_path: Path, content: dict[str, int] | None, refused: bool) -> None:
    """A process on a node that was lost must not overwrite what the round after it writes."""
    if content is not None:
        (tmp_path / "round.json").write_text(json.dumps(content))
    if refused:
        with pytest.raises(SupersededError):
            save(tmp_path)
        assert not (tmp_path / "model").exists()
    else:
        assert save(tmp_path) is not None


def test_no_storage_no_model() -> None:
    """Without a folder for the job nothing is written."""
    assert save(None) is None


def test_metrics_for_the_launcher(tmp_path: Path) -> None:
    """Numbers under metrics, the path of the model beside them."""
    write_metrics(str(tmp_path / "metrics.json"), metrics={"accuracy": 0.5}, model="/m")
    assert json.loads((tmp_path / "metrics.json").read_text()) == {
        "metrics": {"accuracy": 0.5},
        "model": "/m",
    }
    assert [entry.name for entry in tmp_path.iterdir()] == ["metrics.json"]
