"""Samples: once a worker, kept for its other ranks and the next start, made anew when anything changes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from xeontrain_trainer.train import data
from xeontrain_trainer.train.config import TrainingConfig, parse_training
from xeontrain_trainer.train.errors import BadConfigError
from xeontrain_trainer.train.tasks.text_classification import TextClassification

from tests.unit.trainer.train import tiny


def config_of(model: Path, folder: Path, **hyperparameters: Any) -> TrainingConfig:
    train = tiny.write_csv(folder / "train.csv", tiny.rows(20))
    evaluate = tiny.write_csv(folder / "eval.csv", tiny.rows(5, seed=1))
    return parse_training(tiny.training(model, train=[train], evaluate=[evaluate], **hyperparameters))


def test_tokens_of_every_row(tiny_model: Path, tmp_path: Path) -> None:
    """Row i of the files is row i of the tokens, cut to maxLength, with its class and its length."""
    prepared = tiny.prepare(config_of(tiny_model, tmp_path, maxLength=8))
    assert (prepared.train_rows, prepared.eval_rows, prepared.labels) == (20, 5, ("ham", "spam"))
    table = data.load_samples(prepared, "train")
    assert table["labels"][:] == [0, 1] * 10
    expected = [min(8, len(text.split()) + 2) for text, _ in tiny.rows(20)]
    assert table["length"][:] == expected == [len(ids) for ids in table["input_ids"]]
    assert set(table.column_names) == {"input_ids", "token_type_ids", "labels", "row", "length", "items"}


def test_pairs_are_one_text(tiny_model: Path, tmp_path: Path) -> None:
    """textPair is the second part of the same row, told apart by its token types."""
    path = tiny.write_csv(
        tmp_path / "a.csv", [("the prize", "lunch", 1), ("a", "to", 0)], header=("a", "b", "c")
    )
    block: dict[str, Any] = tiny.training(tiny_model, train=[path])
    block["dataset"]["columns"] = {"text": "a", "textPair": "b", "label": "c"}
    table = data.load_samples(tiny.prepare(parse_training(block)), "train")
    assert table["token_type_ids"][0] == [0, 0, 0, 0, 1, 1]


def test_second_start_finds_the_tokens(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank that starts again does not tokenize again."""
    config = config_of(tiny_model, tmp_path)
    first = tiny.prepare(config)
    monkeypatch.setattr(data, "_encode", None)
    assert tiny.prepare(config) == first


@pytest.mark.parametrize("change", ["content", "maxLength", "labels", "tokenizer"])
def test_any_change_makes_other_tokens(tiny_model: Path, tmp_path: Path, change: str) -> None:
    """Tokens are never taken from a run with other data, another tokenizer or other lengths."""
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    first = tiny.prepare(config_of(model, tmp_path))
    hyperparameters = {"maxLength": 9} if change == "maxLength" else {}
    config = config_of(model, tmp_path, **hyperparameters)
    if change == "content":
        tiny.write_csv(tmp_path / "train.csv", tiny.rows(20, seed=5))
    if change == "labels":
        tiny.write_csv(tmp_path / "train.csv", [(text, label.upper()) for text, label in tiny.rows(20)])
        tiny.write_csv(tmp_path / "eval.csv", [("a", "HAM")])
    if change == "tokenizer":
        (model / "tokenizer_config.json").write_text((tiny_model / "tokenizer_config.json").read_text() + " ")
    second = tiny.prepare(config)
    assert second.folder != first.folder
    assert (second.digest == first.digest) == (change == "tokenizer")


def test_processes_change_nothing(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens made by several processes are those of one, in the same order."""
    monkeypatch.setattr(TextClassification, "rows_a_process", 5)
    config = config_of(tiny_model, tmp_path)
    several = tiny.prepare(config, processes=2)
    shutil.rmtree(several.folder)
    assert tiny.prepare(config) == several


def test_too_long_for_the_model(tiny_model: Path, tmp_path: Path) -> None:
    """More tokens than the model has positions would end in an index error deep inside it."""
    with pytest.raises(
        BadConfigError, match=r"maxLength: 33 is more than the 32 tokens of the model. Write 32"
    ):
        tiny.prepare(config_of(tiny_model, tmp_path, maxLength=33))


def test_a_folder_without_tokenizer(tiny_model: Path, tmp_path: Path) -> None:
    """A model folder that lost its tokenizer is named as such."""
    model = tmp_path / "model"
    model.mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(tiny_model / name, model / name)
    with pytest.raises(BadConfigError, match=r"spec\.training\.model: its tokenizer cannot be loaded"):
        tiny.prepare(config_of(model, tmp_path))


@pytest.mark.parametrize("first", ["nobody", "another-worker", "rubbish"])
def test_workers_that_share_a_cache_do_not_displace_each_other(tmp_path: Path, first: str) -> None:
    """Whoever comes second keeps what is there whole, and nothing half-made stays."""
    folder, partial = tmp_path / "key", tmp_path / ".partial"
    partial.mkdir()
    (partial / data._MANIFEST).write_text("second")
    if first != "nobody":
        folder.mkdir()
        (folder / (data._MANIFEST if first == "another-worker" else "rubbish")).write_text("first")
    data._move_in(str(partial), folder=str(folder))
    kept = "first" if first == "another-worker" else "second"
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
    assert {path.name: path.read_text() for path in folder.iterdir()} == {data._MANIFEST: kept}
