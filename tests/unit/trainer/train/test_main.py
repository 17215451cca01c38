"""The command of a rank: what is wrong with the job is told before anything slow is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from xeontrain_trainer import contract

from tests.unit.trainer.train import tiny

SLOW = ("torch", "transformers", "datasets", "pandas")
PROGRAM = f"""
import sys
from xeontrain_trainer.train.__main__ import main
code = main()
print(",".join(name for name in {SLOW} if name in sys.modules))
sys.exit(code)
"""


def start(folder: Path, training: dict[str, object], **environ: str) -> subprocess.CompletedProcess[str]:
    document = folder / "training.json"
    document.write_text(json.dumps({"contract": contract.CONTRACT_VERSION, "training": training}))
    names = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
        contract.ENV_TRAINING_FILE: str(document),
        "TORCHELASTIC_ERROR_FILE": str(folder / "error.json"),
        **environ,
    }
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=names, capture_output=True, text=True, check=False, timeout=120
    )


def wrong_column(folder: Path) -> dict[str, object]:
    return tiny.training(
        "m", train=[tiny.write_csv(folder / "a.csv", [("x", "y")], header=("text", "class"))]
    )


def missing_file(folder: Path) -> dict[str, object]:
    return tiny.training("m", train=[str(folder / "none.csv")])


def empty_file(folder: Path) -> dict[str, object]:
    (folder / "a.csv").touch()
    return tiny.training("m", train=[str(folder / "a.csv")])


@pytest.mark.parametrize(
    ("make", "exit_code", "start_of_message"),
    [
        (wrong_column, contract.EXIT_BAD_CONFIG, "spec.training.dataset.columns.label: "),
        (missing_file, contract.EXIT_MISSING_FILE, "spec.training.dataset.files.train[0]: "),
        (empty_file, contract.EXIT_BAD_DATA, "spec.training.dataset.files.train: "),
    ],
    ids=["column", "file", "empty"],
)
def test_wrong_data_is_told_at_once(
    tmp_path: Path, make: object, exit_code: int, start_of_message: str
) -> None:
    """Exit code, one line on stderr and in the error file, no traceback, and nothing slow imported for it."""
    assert callable(make)
    ended = start(tmp_path, make(tmp_path))
    assert ended.returncode == exit_code
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"error: {start_of_message}")
    written = json.loads((tmp_path / "error.json").read_text())["message"]["message"]
    assert line == f"error: {written}"
    assert ended.stdout.strip() == ""


def test_a_wrong_layout_is_a_failure_of_ours(tmp_path: Path) -> None:
    """Ranks that would train separately never start; that is no user error, so the job may try again."""
    ended = start(tmp_path, wrong_column(tmp_path), WORLD_SIZE="1", XEONTRAIN_WORKERS="2")
    assert ended.returncode == 1
    assert "the ranks would train separately" in ended.stderr
    assert "Traceback" in ended.stderr
    assert "RankLayoutError" in json.loads((tmp_path / "error.json").read_text())["message"]["message"]
