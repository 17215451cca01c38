"""What the chart says in several places is the same everywhere; needs no helm."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import xeontrain_operator
import yaml
from xeontrain_operator.api.validation import validate_job
from xeontrain_operator.constants import GROUP, KIND, PLURAL, VERSION
from xeontrain_operator.settings import NodePool, Settings

from tests.chart.helm import CHART, ROOT
from tools import manifests

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
CHART_YAML = yaml.safe_load((CHART / "Chart.yaml").read_text())


def test_generated_files_are_up_to_date() -> None:
    """The CRD template, the rules, the README and the plain CRD are what their sources give."""
    assert manifests.differing(manifests.chart_files()) == [], "run `make manifests`"


def test_versions_are_one() -> None:
    """Chart, application, distribution and the default trainer image carry the same version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {
        CHART_YAML["version"],
        CHART_YAML["appVersion"],
        xeontrain_operator.__version__,
        Settings().trainer_image.rpartition(":")[2],
    } == {project}


def _objects(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        if "properties" in node and path.rpartition("/")[2] not in ("if", "then"):
            yield path, node
        for key, value in node.items():
            yield from _objects(value, f"{path}/{key}")


OBJECTS = dict(_objects(SCHEMA))


@pytest.mark.parametrize("path", OBJECTS, ids=[path or "/" for path in OBJECTS])
def test_schema_is_closed_and_described(path: str) -> None:
    """A misspelt key is refused at every level, and each key says what it is."""
    node = OBJECTS[path]
    assert node["additionalProperties"] is False
    undescribed = [key for key, child in node["properties"].items() if "description" not in child]
    # What Kubernetes itself defines needs no words of ours.
    assert set(undescribed) <= {"name", "value", "valueFrom"}


def _keys(
    node: dict[str, Any], schema: dict[str, Any], path: str = ""
) -> Iterator[tuple[str, tuple[set[str], set[str]]]]:
    """(path, (keys that are written, keys that are known)) of each level of values.yaml."""
    yield path, (set(node), set(schema["properties"]))
    for key, child in node.items():
        if "properties" in schema["properties"].get(key, {}):
            yield from _keys(child, schema["properties"][key], f"{path}/{key}")


KEYS = dict(_keys(VALUES, SCHEMA))


@pytest.mark.parametrize("path", KEYS, ids=[path or "/" for path in KEYS])
def test_every_value_has_a_default_that_is_shown(path: str) -> None:
    """values.yaml shows every key that the schema takes, and no other (`global` belongs to parent charts)."""
    written, known = KEYS[path]
    assert written == known - {"global"}


def test_pool_keys_are_those_of_the_operator() -> None:
    """A pool in the values has the fields that the operator's settings have."""
    (pool,) = SCHEMA["properties"]["nodePools"]["patternProperties"].values()
    aliases = {str(field.alias) for field in NodePool.model_fields.values()}
    assert set(pool["properties"]) == aliases


def test_chart_names_the_resource() -> None:
    """The catalogue annotation speaks of the resource as it is."""
    (entry,) = yaml.safe_load(CHART_YAML["annotations"]["artifacthub.io/crds"])
    assert (entry["kind"], entry["version"], entry["name"]) == (KIND, VERSION, f"{PLURAL}.{GROUP}")


@pytest.mark.parametrize("name", list(manifests.samples(CHART_YAML)))
def test_samples_are_valid(name: str) -> None:
    """A sample passes every rule of the resource."""
    assert validate_job(manifests.samples(CHART_YAML)[name]) == []


@pytest.mark.parametrize(
    "text",
    ["plain", "{{ .Values.x }}", "a }} b {{ c", "{{{ }}}", '{{ "{{" }}'],
    ids=["plain", "template", "reversed", "three", "quoted"],
)
def test_braces_are_escaped(text: str) -> None:
    """What helm would take for a template comes out as a string of a template that gives the same text."""
    escaped = manifests._escape_braces(text)
    rendered = escaped.replace('{{ "{{" }}', "\0").replace('{{ "}}" }}', "\1")
    assert "{{" not in rendered
    assert "}}" not in rendered
    assert rendered.replace("\0", "{{").replace("\1", "}}") == text
