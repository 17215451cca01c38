"""What a person types and sees: exit codes, where each line goes, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result
from xeontrain_operator import __version__
from xeontrain_operator.api.crd import crd
from xeontrain_operator.cli.main import app

from tests.contract.cases.edits import COMMAND, TRAINING, edited

JOB = edited(TRAINING, {"spec.storage": {"size": "1Gi"}})
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "data"}, "data": {"a": "b"}}


def _call(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=stdin)


def _file(folder: Path, *documents: Any, name: str = "job.yaml") -> str:
    path = folder / name
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def test_crd_is_printed() -> None:
    """`xeontrain crd | kubectl apply -f -` works."""
    result = _call("crd")
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout) == crd()


def test_valid_file(tmp_path: Path) -> None:
    """Other kinds are passed over, with a count."""
    result = _call("validate", _file(tmp_path, JOB, CONFIG_MAP, CONFIG_MAP))
    assert result.exit_code == 0
    assert result.stdout == "1 job checked, 0 errors; 2 other objects passed over\n"
    assert result.stderr == ""


def test_invalid_file(tmp_path: Path) -> None:
    """Each error is a line of the form FILE: field: what is wrong and what to write."""
    path = _file(tmp_path, edited(TRAINING, {"spec.workers": 0, "spec.wrokers": 1}))
    result = _call("validate", path)
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"{path}: spec.workers: is 0; write at least 1",
        f"{path}: spec.wrokers: is not a field; write workers",
    ]


def test_generated_name(tmp_path: Path) -> None:
    """The API server completes generateName; until then the job is as good as any."""
    path = _file(tmp_path, edited(JOB, {"metadata": {"generateName": "case-"}}))
    for command in ("validate", "render"):
        result = _call(command, path)
        assert result.exit_code == 0, result.output


def test_several_jobs_are_told_apart(tmp_path: Path) -> None:
    """With several jobs in a file an error names its job."""
    bad = edited(COMMAND, {"metadata.name": "bad", "spec.workers": 0})
    path = _file(tmp_path, TRAINING, bad)
    result = _call("validate", path)
    assert result.exit_code == 1
    assert result.stderr == f"{path}: bad: spec.workers: is 0; write at least 1\n"


def test_all_files_are_checked(tmp_path: Path) -> None:
    """A file that cannot be read does not hide the errors of the next."""
    bad = _file(tmp_path, edited(TRAINING, {"spec.workers": 0}))
    result = _call("validate", str(tmp_path / "none.yaml"), bad, str(tmp_path))
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"{tmp_path}/none.yaml: no such file",
        f"{bad}: spec.workers: is 0; write at least 1",
        f"{tmp_path}: is a folder; name the files in it",
    ]


def test_empty_file_is_told(tmp_path: Path) -> None:
    """A file that lost its content is not lost among others."""
    empty = _file(tmp_path, name="empty.yaml")
    result = _call("validate", _file(tmp_path, JOB), empty)
    assert (result.exit_code, result.stderr) == (0, f"warning: {empty}: holds no object at all\n")


def test_version() -> None:
    """A report of a fault can name its version."""
    result = _call("--version")
    assert (result.exit_code, result.stdout) == (0, f"xeontrain {__version__}\n")


def test_stdin() -> None:
    """- is standard input, and a YAML error has its line."""
    assert _call("validate", "-", stdin=yaml.safe_dump(TRAINING)).exit_code == 0
    result = _call("validate", "-", stdin="a: 1\nb: ]\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("stdin:2: not valid YAML: ")


def test_list_is_unpacked(tmp_path: Path) -> None:
    """`kubectl get -o yaml` writes a List."""
    path = _file(tmp_path, {"apiVersion": "v1", "kind": "List", "items": [TRAINING, CONFIG_MAP]})
    assert _call("validate", path).stdout == "1 job checked, 0 errors; 1 other object passed over\n"


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({**TRAINING, "kind": "XeonTrainjob"}, "kind: is XeonTrainjob; write XeonTrainJob"),
        (
            {**TRAINING, "apiVersion": "xeontrain.dev/v1"},
            "apiVersion: is xeontrain.dev/v1; write xeontrain.dev/v1alpha1",
        ),
        (CONFIG_MAP, "no XeonTrainJob found"),
    ],
    ids=["kind", "version", "none"],
)
def test_near_misses_are_no_success(tmp_path: Path, document: Any, says: str) -> None:
    """A misspelled kind is not passed over as somebody else's object."""
    result = _call("validate", _file(tmp_path, document))
    assert result.exit_code == 1
    assert says in result.stderr


def test_what_may_surprise_is_a_warning(tmp_path: Path) -> None:
    """Accepted is accepted, but a person hears what to think about again."""
    path = _file(tmp_path, edited(JOB, {"spec.resources.memory": 32}))
    result = _call("validate", path)
    assert result.exit_code == 0
    assert result.stderr.startswith(f"warning: {path}: spec.resources.memory: is 32 bytes")


def test_render(tmp_path: Path) -> None:
    """The children come out as YAML, for each job of the file."""
    second = edited(COMMAND, {"metadata.name": "second"})
    result = _call("render", _file(tmp_path, TRAINING, CONFIG_MAP, second))
    children = list(yaml.safe_load_all(result.stdout))
    kinds = [(child["kind"], child["metadata"]["name"]) for child in children]
    assert ("ConfigMap", "case") in kinds
    assert [name for kind, name in kinds if kind == "StatefulSet"] == ["case", "second"]


def test_render_of_an_invalid_job(tmp_path: Path) -> None:
    """Nothing is rendered of what the API server would refuse."""
    path = _file(tmp_path, edited(TRAINING, {"spec.workers": 0}))
    result = _call("render", path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"{path}: spec.workers: is 0; write at least 1\n"


def test_run_of_an_unclear_file(tmp_path: Path) -> None:
    """With several jobs a person has to choose."""
    path = _file(tmp_path, TRAINING, edited(COMMAND, {"metadata.name": "second"}))
    result = _call("run", path)
    assert result.exit_code == 1
    assert result.stderr == f"{path}: 2 jobs; choose one with --job: case, second\n"
