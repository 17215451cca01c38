"""The launcher as one file, for images that have Python and nothing of ours."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.unit.trainer.launcher.loopback import Gang
from tools import make_launcher

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file, made from the sources as they are."""
    target = tmp_path_factory.mktemp("zipapp") / "launcher.pyz"
    make_launcher.make(target)
    return target


def oldest_python() -> str:
    """A Python 3.9 of this machine; the test is left out where there is none."""
    installed = Path.home().glob(".pyenv/versions/3.9.*/bin/python3.9")
    for candidate in (shutil.which("python3.9"), *map(str, installed)):
        if candidate and subprocess.run([candidate, "-V"], capture_output=True, check=False).returncode == 0:
            return candidate
    pytest.skip("no Python 3.9 on this machine: the launcher is only checked against its syntax here")


def test_same_sources_same_bytes(launcher: Path, tmp_path: Path) -> None:
    """No time, owner or order of this machine is in it."""
    again = tmp_path / "again.pyz"
    make_launcher.make(again)
    assert again.read_bytes() == launcher.read_bytes()
    with zipfile.ZipFile(launcher) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {make_launcher.TIME}


def test_all_of_it_is_python_3_9(launcher: Path) -> None:
    """Every file in it can be read by the oldest Python that is promised, its first one by 3.6; no torch."""
    with zipfile.ZipFile(launcher) as archive:
        names = archive.namelist()
        for name in names:
            version = (3, 6) if name == "__main__.py" else (3, 9)
            ast.parse(archive.read(name), filename=name, feature_version=version)
    assert "xeontrain_trainer/rank.py" in names
    assert "xeontrain_trainer/launcher/main.py" in names
    assert not [name for name in names if "/train/" in name]


@pytest.mark.parametrize("python", ["this", "3.9"])
def test_job_runs_under_it(launcher: Path, tmp_path: Path, python: str) -> None:
    """Launcher and shim come from the file alone; the user's modules reach the ranks and nobody else."""
    interpreter = sys.executable if python == "this" else oldest_python()
    modules = tmp_path / "modules"
    modules.mkdir()
    for name in ("asyncio", "json", "xeontrain_trainer"):
        (modules / f"{name}.py").write_text("raise RuntimeError('a module of the user in the launcher')\n")
    gang = Gang(tmp_path, workers=2, command=["sh", "-c", 'echo "rank $RANK sees $PYTHONPATH"'])
    gang.python, gang.launcher = interpreter, ["-I", "-S", str(launcher)]
    plain = gang.environ
    gang.environ = lambda pod: {**plain(pod), "PYTHONPATH": str(modules)}  # type: ignore[method-assign]
    with gang:
        zero = gang.pods[0]
        assert zero.exit_code() == 0, zero.said()
        assert zero.document()["outcome"] == "Succeeded"
        assert f"rank 0 sees {modules}" in zero.said()


@pytest.mark.parametrize("way", ["file", "module"])
def test_shim_runs_from_it(launcher: Path, way: str) -> None:
    """By its own word, or as the module that it is elsewhere."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [sys.executable, str(launcher), "rank"]
    if way == "module":
        environ["PYTHONPATH"] = str(launcher)
        command = [sys.executable, "-m", "xeontrain_trainer.rank"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.split("\n")[0][:37]) == (78, "usage: python -m xeontrain_trainer.ra")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("sys.version_info = (3, 8, 1)", "it is too old"),
        ("sys.modules['asyncio'] = None", "asyncio"),
    ],
    ids=["too-old", "not-whole"],
)
def test_python_that_will_not_do_is_told_so(launcher: Path, tmp_path: Path, fault: str, words: str) -> None:
    """Where the operator finds it: in the termination message, with field, cause and remedy."""
    message = tmp_path / "termination-log"
    script = f"import runpy, sys; {fault}; sys.argv = ['launcher.pyz', '--', 'true']; "
    script += f"runpy.run_path({str(launcher)!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script],
        env={"XEONTRAIN_TERMINATION_LOG": str(message)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 126, done.stderr
    said = message.read_text()
    assert said.startswith("spec.image: its python3")
    assert words in said
    assert "Python 3.9 or later" in said
