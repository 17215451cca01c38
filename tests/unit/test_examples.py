"""The examples: up to date with their sources, small enough for kubectl, and what the trainer understands."""

from __future__ import annotations

import ast
import base64
import csv
import gzip
import io
import json
import re
from typing import Any

import pytest
import yaml
from xeontrain_operator.api.validation import validate_job
from xeontrain_operator.cli.files import read_manifest
from xeontrain_trainer.train.config import parse_training

from tools import make_example

# `metadata.annotations` may hold this much; kubectl's client-side apply keeps the whole object there.
LARGEST_ANNOTATION_BYTES = 262_144
FILES = sorted(make_example.EXAMPLES.glob("*.yaml"))


def documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


@pytest.fixture(scope="module")
def mail_filter() -> list[dict[str, Any]]:
    return documents(make_example.TARGET.read_text(encoding="utf-8"))


def test_mail_filter_is_up_to_date() -> None:
    """The committed example says what its sources say."""
    assert make_example.same(make_example.TARGET.read_text(encoding="utf-8"), make_example.render())


def test_the_same_sources_give_the_same_bytes() -> None:
    """No time or name of a file is in the compressed data."""
    assert make_example.shards("eval") == make_example.shards("eval")
    for content in make_example.shards("eval").values():
        assert content[3:8] == b"\0\0\0\0\0"


@pytest.mark.parametrize("split", ["train", "eval"])
def test_shards_hold_every_row_once(mail_filter: list[dict[str, Any]], split: str) -> None:
    """The shards in order are the rows of the CSV file, each shard with the header."""
    with (make_example.EXAMPLES / "data" / f"mail-{split}.csv").open(newline="", encoding="utf-8") as file:
        header, *expected = csv.reader(file)
    rows: list[list[str]] = []
    data = {name: text for item in mail_filter for name, text in item.get("binaryData", {}).items()}
    for _, encoded in sorted(item for item in data.items() if item[0].startswith(f"{split}-")):
        text = gzip.decompress(base64.b64decode(encoded)).decode()
        shard_header, *shard = csv.reader(io.StringIO(text))
        assert shard_header == header
        assert shard
        rows += shard
    assert rows == expected


def test_client_side_apply_takes_every_object(mail_filter: list[dict[str, Any]]) -> None:
    """Each object fits into the annotation in which kubectl keeps it."""
    for item in mail_filter:
        assert len(json.dumps(item).encode()) < LARGEST_ANNOTATION_BYTES


def test_data_comes_before_the_job(mail_filter: list[dict[str, Any]]) -> None:
    """The job is the last object and mounts every ConfigMap before it, so its pods wait for nothing."""
    *config_maps, job = mail_filter
    assert {item["kind"] for item in config_maps} == {"ConfigMap"}
    assert job["kind"] == "XeonTrainJob"
    (volume,) = job["spec"]["volumes"]
    mounted = [source["configMap"]["name"] for source in volume["projected"]["sources"]]
    assert mounted == [item["metadata"]["name"] for item in config_maps]
    assert job["spec"]["volumeMounts"][0]["name"] == volume["name"]


def test_the_trainer_understands_the_job(mail_filter: list[dict[str, Any]]) -> None:
    """The training block is parsed as it stands, and its globs match the mounted names."""
    training = mail_filter[-1]["spec"]["training"]
    # Kubernetes' YAML reads 1e-4 as a number, PyYAML as a text.
    rate = training["hyperparameters"]["learningRate"]
    training["hyperparameters"]["learningRate"] = float(rate)
    config = parse_training(training)
    assert config.dataset.files is not None
    assert config.hyperparameters.learning_rate == 1e-4
    names = [f"/data/{name}" for item in mail_filter for name in item.get("binaryData", {})]
    patterns = [*config.dataset.files.train, *config.dataset.files.eval]
    for name in names:
        assert any(re.fullmatch(pattern.replace("*", "[^/]*"), name) for pattern in patterns), name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_example_is_valid(path: Any) -> None:
    """The API server would take each job as it stands, and every script in it is Python."""
    manifest = read_manifest(str(path))
    assert manifest.jobs
    assert [problem for job in manifest.jobs for problem in validate_job(job)] == []
    for config_map in manifest.others:
        for name, text in config_map.get("data", {}).items():
            if name.endswith(".py"):
                ast.parse(text, filename=name)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_example_is_listed(path: Any) -> None:
    """The README tells what each example is for."""
    assert f"`{path.name}`" in (make_example.EXAMPLES / "README.md").read_text(encoding="utf-8")
