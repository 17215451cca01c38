"""A worker is started as its pod would be, with this machine's places in the contract's variables."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from xeontrain_operator import constants as c
from xeontrain_operator.api.v1alpha1 import parse_job
from xeontrain_operator.cli.files import InputError
from xeontrain_operator.cli.run.objects import Objects
from xeontrain_operator.cli.run.volumes import Folders
from xeontrain_operator.cli.run.worker import Ports, Worker, prepare_worker

from tests.contract.cases.edits import COMMAND, TRAINING, Job, edited
from tests.contract.document import tables

UID = "0f5c1a52-0000-4000-8000-000000000000"


def _worker(folder: Path, base: Job, number: int = 0, **edits: Any) -> Worker:
    job = parse_job(edited(base, {"metadata.uid": UID, "spec.workers": 2, **edits}))
    return prepare_worker(
        job,
        number=number,
        cpus=(number,),
        ports=Ports(launchers=(4000, 4001), rendezvous=15000),
        folders=Folders(output=folder, run=folder / "runs" / "1"),
        objects=Objects([], source="job.yaml"),
        source="job.yaml",
    )


def test_contract_is_complete(tmp_path: Path) -> None:
    """Every variable that the contract names for the launcher is set, but for those that may be unset."""
    environ = _worker(tmp_path, TRAINING).environ
    documented = {row["Name"] for row in tables("Environment: set by the operator")[0]}
    assert documented - environ.keys() == {c.ENV_INTERFACE, c.ENV_PARK_ONLY}


def test_the_pods_network_interface_is_not_asked_for(tmp_path: Path) -> None:
    """A job that names one runs here over the loopback interface; the launcher would refuse the name."""
    environ = _worker(tmp_path, TRAINING, **{"spec.distributed": {"interface": "ens5"}}).environ
    assert c.ENV_INTERFACE not in environ


def test_workers_differ_where_they_must(tmp_path: Path) -> None:
    """Number, port, identity and scratch space are each worker's own; coordinator and folder are shared."""
    zero, one = (_worker(tmp_path, TRAINING, n).environ for n in (0, 1))
    for name in (c.ENV_WORKER, c.ENV_LAUNCHER_PORT, c.ENV_POD_UID, c.ENV_STATE_DIR, c.ENV_TERMINATION_LOG):
        assert zero[name] != one[name], name
    for name in (c.ENV_COORDINATOR, c.ENV_COORDINATOR_PORT, c.ENV_JOB_UID, c.ENV_JOB_DIR):
        assert zero[name] == one[name], name
    assert (zero[c.ENV_WORKER], one[c.ENV_WORKER]) == ("0", "1")
    assert one[c.ENV_COORDINATOR_PORT] == zero[c.ENV_LAUNCHER_PORT] == "4000"
    assert zero[c.ENV_MASTER_PORT] == "15000"


def test_paths_of_the_training_document(tmp_path: Path) -> None:
    """Data, model and checkpoint under a mount are found in its folder; a hub name stays."""
    edits = {
        "spec.volumes": [{"name": "data", "hostPath": {"path": "/srv/[x]"}}],
        "spec.volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "spec.checkpoint.resume": "/data/ckpt",
    }
    environ = _worker(tmp_path, TRAINING, **edits).environ
    document = json.loads(Path(environ[c.ENV_TRAINING_FILE]).read_text(encoding="utf-8"))
    assert document["training"]["dataset"]["files"]["train"] == ["/srv/[[]x]/train-*.csv.gz"]
    assert document["training"]["model"] == "sentence-transformers/all-MiniLM-L6-v2"
    assert document["checkpoint"]["resume"] == "/srv/[x]/ckpt"


@pytest.mark.parametrize(
    ("storage", "folder"),
    [
        (None, "storage/case-0f5c1a52"),
        ({"claim": "models", "subPath": "team"}, "claims/models/team/case-0f5c1a52"),
        ({"size": "1Gi"}, "claims/xeontrain-storage-case-0/case-0f5c1a52"),
    ],
    ids=["none", "claim", "size"],
)
def test_job_folder(tmp_path: Path, storage: Any, folder: str) -> None:
    """The model ends below the output folder, with or without storage."""
    edits = {} if storage is None else {"spec.storage": storage}
    environ = _worker(tmp_path, TRAINING, **edits).environ
    assert environ[c.ENV_JOB_DIR] == str(tmp_path / folder)
    assert (tmp_path / folder).is_dir()


def test_command(tmp_path: Path) -> None:
    """The launcher runs in this interpreter, and the command sees the resolved environment."""
    edits = {
        "spec.command": ["sh", "-c", "echo $(GREETING)"],
        "spec.env": [{"name": "GREETING", "value": "hello"}],
    }
    worker = _worker(tmp_path, COMMAND, **edits)
    assert worker.argv == (sys.executable, "-m", "xeontrain_trainer.launcher", "--", "sh", "-c", "echo hello")
    assert worker.environ["GREETING"] == "hello"
    assert worker.environ["PATH"].startswith(str(Path(sys.executable).parent))


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("/scripts/train.py", "/srv/my scripts/train.py"),
        ("--config=/scripts/a.yaml", "--config=/srv/my scripts/a.yaml"),
        ("/scripts", "/srv/my scripts"),
        ("/scripts-too/train.py", "/scripts-too/train.py"),
        ("print('/scripts/train.py')", "print('/scripts/train.py')"),
        ("x=/scripts/train.py", "x=/scripts/train.py"),
    ],
)
def test_arguments_under_a_mount(tmp_path: Path, argument: str, expected: str) -> None:
    """A path that is an argument, or an option's value, is found here; text that holds one is left alone."""
    edits = {
        "spec.command": ["python3"],
        "spec.args": [argument],
        "spec.volumes": [{"name": "scripts", "hostPath": {"path": "/srv/my scripts"}}],
        "spec.volumeMounts": [{"name": "scripts", "mountPath": "/scripts"}],
    }
    assert _worker(tmp_path, COMMAND, **edits).argv[-1] == expected


def test_command_in_an_image_of_its_own(tmp_path: Path) -> None:
    """Here it runs under this installation's launcher: nothing has to be copied."""
    worker = _worker(tmp_path, COMMAND, **{"spec.image": "mine:1", "spec.command": ["./train"]})
    assert worker.argv == (sys.executable, "-m", "xeontrain_trainer.launcher", "--", "./train")


def test_the_shell_that_starts_it_does_not_leak_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell inside another training must not lend its rank; a person's own caches are kept."""
    monkeypatch.setenv("RANK", "7")
    monkeypatch.setenv("XEONTRAIN_ROUND", "9")
    monkeypatch.setenv("HF_HOME", "/caches/hf")
    monkeypatch.setenv("HOME", "/home/me")
    environ = _worker(tmp_path, TRAINING).environ
    assert "RANK" not in environ
    assert "XEONTRAIN_ROUND" not in environ
    assert (environ["HF_HOME"], environ["HOME"]) == ("/caches/hf", "/home/me")


@pytest.mark.parametrize(
    ("edits", "field"),
    [
        ({"spec.command": ["a\0b"]}, r"spec\.command"),
        ({"spec.env": [{"name": "X", "value": "a\0b"}]}, r"spec\.env \(X\)"),
    ],
    ids=["command", "env"],
)
def test_no_program_can_be_given_nul(tmp_path: Path, edits: dict[str, Any], field: str) -> None:
    """The API server takes it, and only the node would say so."""
    with pytest.raises(InputError, match=rf"job\.yaml: {field}.*NUL"):
        _worker(tmp_path, COMMAND, **edits)
