"""How errors are told: one line for what a user can mend, torch's own file for the launcher."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from xeontrain_trainer import contract
from xeontrain_trainer.train import errors


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [
        (errors.MissingFileError, contract.EXIT_MISSING_FILE),
        (errors.BadDataError, contract.EXIT_BAD_DATA),
        (errors.BadConfigError, contract.EXIT_BAD_CONFIG),
        (errors.LossNotFiniteError, contract.EXIT_LOSS_NOT_FINITE),
    ],
)
def test_user_errors_end_the_job_at_once(kind: type[errors.UserError], exit_code: int) -> None:
    """Each user error has an exit code of the contract that is never tried again, and is one line."""
    error = kind("spec.training.model", cause="it is\nnot there", remedy="Write another")
    assert error.exit_code == exit_code
    assert exit_code in contract.USER_ERROR_EXITS
    assert str(error) == "spec.training.model: it is not there. Write another"


def test_every_user_error_has_an_exit_code() -> None:
    """No user error can be added without one."""
    assert {kind.exit_code for kind in errors.UserError.__subclasses__()} < contract.USER_ERROR_EXITS


def test_user_errors_come_from_other_processes() -> None:
    """What a process that encodes rows raises arrives as it was, by pickle."""
    error = errors.BadDataError("spec.training.dataset", cause="it is broken", remedy="Mend it")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.remedy) == (errors.BadDataError, str(error), "Mend it")


def test_error_file_is_in_torchs_form(tmp_path: Path) -> None:
    """The launcher, like torch's agent, reads message and timestamp."""
    path = tmp_path / "rank-0" / "error.json"
    errors.write_error_file(str(path), message="what happened")
    content = json.loads(path.read_text())["message"]
    assert content["message"] == "what happened"
    assert content["extraInfo"]["timestamp"].isdecimal()
    assert [entry.name for entry in path.parent.iterdir()] == ["error.json"]


def test_no_error_file_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a launcher, or where the file cannot be written, the error itself is still the news."""
    errors.write_error_file(None, message="x")
    (tmp_path / "file").touch()
    errors.write_error_file(str(tmp_path / "file" / "error.json"), message="x")
    assert "cannot write the error file" in capsys.readouterr().err


def test_last_words_are_the_innermost() -> None:
    """A library's error is quoted by its cause, in one line."""
    error = RuntimeError("outer")
    error.__cause__ = ValueError("inner\n  detail")
    assert errors.last_words(error) == "ValueError: detail"
