"""What the documents say must be so: links, commands, YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import yaml
from xeontrain_operator.api import conditions
from xeontrain_operator.api.crd import crd
from xeontrain_operator.api.v1alpha1.status import Phase
from xeontrain_operator.api.validation import is_job, validate_job
from xeontrain_operator.api.yaml_dialect import read_documents
from xeontrain_operator.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "charts/**/*.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _blocks(path: Path, language: str) -> Iterator[str]:
    for found, text in FENCE.findall(path.read_text(encoding="utf-8")):
        if found == language:
            yield text


def _anchors(path: Path) -> set[str]:
    """Anchors of the headings, as the common renderers make them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_links_resolve(path: Path) -> None:
    """Each relative link leads to a file, and to a heading where it names one."""
    broken = []
    for target in LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
        if re.match(r"^[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            broken.append(target)
    assert broken == []


def _make_targets() -> set[str]:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "Makefile", *ROOT.glob("*.mk"))]
    return {name for text in texts for name in re.findall(r"^([a-z][a-z0-9-]*):(?!=)", text, re.MULTILINE)}


def _named_make_targets(text: str) -> set[str]:
    code = [
        *re.findall(r"`([^`\n]+)`", text),
        *(line for _, block in FENCE.findall(text) for line in block.split("\n")),
    ]
    calls = [re.match(r"^make ((?:[a-z][a-z0-9-]*\s*)+)", line.strip()) for line in code]
    return {target for call in calls if call for target in call[1].split()}


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_make_commands_exist(path: Path) -> None:
    """Each `make X` that a document names is a target of the Makefile."""
    assert _named_make_targets(path.read_text(encoding="utf-8")) - _make_targets() == set()


@pytest.mark.parametrize("path", [*DOCUMENTS, *sorted(ROOT.glob("examples/*.yaml"))], ids=_name)
def test_xeontrain_commands_exist(path: Path) -> None:
    """Each `xeontrain X` that a document or an example shows is a command."""
    text = path.read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`|&& |^# +)xeontrain ([a-z]+)", text, re.MULTILINE))
    commands = {
        command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands
    }
    assert named - commands == set()


def test_troubleshooting_names_real_conditions() -> None:
    """Each phase, condition and reason in the README's table is one that the operator writes."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.partition("## When something is wrong")[2].partition("\n## ")[0]
    symptoms = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")]
    named = {name for cell in symptoms for name in re.findall(r"`([A-Z][A-Za-z]+)(?:=[A-Z][a-z]+)?`", cell)}
    known = {value for value in vars(conditions).values() if isinstance(value, str)} | set(get_args(Phase))
    assert len(named) > 10
    assert named - known == set()


def _jobs() -> list[tuple[str, dict[str, object]]]:
    return [
        (f"{_name(path)}-{number}", document.value)
        for path in DOCUMENTS
        for number, block in enumerate(_blocks(path, "yaml"))
        for document in read_documents(block)
        if is_job(document.value)
    ]


def test_documents_show_jobs() -> None:
    """The README shows both kinds of job, so the next test has something to look at."""
    specs = [job["spec"] for name, job in _jobs() if name.startswith("README.md")]
    assert {"training", "command"} <= {key for spec in specs for key in spec}  # type: ignore[attr-defined]


@pytest.mark.parametrize("job", [job for _, job in _jobs()], ids=[name for name, _ in _jobs()])
def test_shown_jobs_are_valid(job: dict[str, object]) -> None:
    """A job that a reader copies out of a document is accepted by every rule of the resource."""
    assert validate_job(job) == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_yaml_and_json_blocks_parse(path: Path) -> None:
    """Blocks marked as YAML or JSON are that."""
    for language in ("yaml", "json"):
        for block in _blocks(path, language):
            list(yaml.safe_load_all(block))


def test_readme_names_every_field_of_the_spec() -> None:
    """The table of the resource leaves out no field at the top of the spec."""
    schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    table = (
        (ROOT / "README.md").read_text(encoding="utf-8").partition("## The resource")[2].partition("\n## ")[0]
    )
    named = set(re.findall(r"`\.?([a-zA-Z]+)[`.]", table))
    assert set(schema["properties"]) - named == set()
