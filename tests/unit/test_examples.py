"""The examples: up to date with their sources, small enough for kubectl, and what the trainer understands."""

from __future__ import annotations

import ast
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
from xeontrain_trainer.train.config import TASKS, parse_training

from tools import example_data, make_example
from tools.make_example import Example

# `metadata.annotations` may hold this much; kubectl's client-side apply keeps the whole object there.
LARGEST_ANNOTATION_BYTES = 262_144
FILES = sorted(make_example.EXAMPLES.glob("*.yaml"))


def documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


with_data = pytest.mark.parametrize("example", make_example.ALL, ids=lambda example: example.name)


@with_data
def test_examples_are_up_to_date(example: Example) -> None:
    """The committed example says what its sources say."""
    assert make_example.same(example.path.read_text(encoding="utf-8"), make_example.render(example))


@with_data
def test_the_same_sources_give_the_same_bytes(example: Example) -> None:
    """No time or name of a file is in the compressed data."""
    files = example.files()
    assert files == example.files()
    for name, content in files.items():
        assert not name.endswith(".gz") or content[3:8] == b"\0\0\0\0\0"


@pytest.mark.parametrize("split", ["train", "eval"])
def test_shards_hold_every_row_once(split: str) -> None:
    """The shards in order are the rows of the CSV file, each shard with the header."""
    with (example_data.DATA / f"mail-{split}.csv").open(newline="", encoding="utf-8") as file:
        header, *expected = csv.reader(file)
    rows: list[list[str]] = []
    data = example_data.mail_filter()
    for name in sorted(name for name in data if name.startswith(f"{split}-")):
        text = gzip.decompress(data[name]).decode()
        shard_header, *shard = csv.reader(io.StringIO(text))
        assert shard_header == header
        assert shard
        rows += shard
    assert rows == expected


def test_tags_are_those_of_the_words() -> None:
    """A date's words are one entity, whatever stands around it."""
    text = example_data._as_conll("On Wed, 02 Oct 2002 at 10:15:00 -0400 4.0.5-1 came.")
    assert [line.split("\t") for line in text.splitlines()] == [
        ["On", "O"],
        *[["Wed", "B-DATE"], [",", "I-DATE"], ["02", "I-DATE"], ["Oct", "I-DATE"], ["2002", "I-DATE"]],
        *[["at", "O"], ["10:15:00", "B-TIME"], ["-", "I-TIME"], ["0400", "I-TIME"]],
        *[["4.0.5-1", "B-VERSION"], ["came", "O"], [".", "O"]],
    ]


@with_data
def test_client_side_apply_takes_every_object(example: Example) -> None:
    """Each object fits into the annotation in which kubectl keeps it."""
    for item in documents(example.path.read_text(encoding="utf-8")):
        assert len(json.dumps(item).encode()) < LARGEST_ANNOTATION_BYTES


@with_data
def test_data_comes_before_the_job(example: Example) -> None:
    """The job is the last object and mounts every ConfigMap before it, so its pods wait for nothing."""
    *config_maps, job = documents(example.path.read_text(encoding="utf-8"))
    assert {item["kind"] for item in config_maps} == {"ConfigMap"}
    assert job["kind"] == "XeonTrainJob"
    (volume,) = job["spec"]["volumes"]
    mounted = [source["configMap"]["name"] for source in volume["projected"]["sources"]]
    assert mounted == [item["metadata"]["name"] for item in config_maps]
    assert job["spec"]["volumeMounts"][0]["name"] == volume["name"]


@with_data
def test_the_trainer_understands_the_job(example: Example) -> None:
    """The training block is parsed as it stands, and its globs match the mounted names."""
    *config_maps, job = documents(example.path.read_text(encoding="utf-8"))
    training = job["spec"]["training"]
    # Kubernetes' YAML reads 1e-4 as a number, PyYAML as a text.
    rate = float(training["hyperparameters"]["learningRate"])
    training["hyperparameters"]["learningRate"] = rate
    config = parse_training(training)
    assert config.dataset.files is not None
    assert config.hyperparameters.learning_rate == rate
    names = [f"/data/{name}" for item in config_maps for name in item["binaryData"]]
    patterns = [*config.dataset.files.train, *config.dataset.files.eval]
    for name in names:
        assert any(re.fullmatch(pattern.replace("*", "[^/]*"), name) for pattern in patterns), name


def test_each_task_has_an_example() -> None:
    """Whatever the trainer can be asked for is shown once."""
    jobs = [documents(example.path.read_text(encoding="utf-8"))[-1] for example in make_example.ALL]
    assert sorted(job["spec"]["training"]["task"] for job in jobs) == sorted(TASKS)


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
