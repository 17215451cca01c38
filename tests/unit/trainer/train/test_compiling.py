"""torch.compile: a missing compiler is told at once, and what it has made is found by the next start."""

from __future__ import annotations

from pathlib import Path

import pytest
from xeontrain_trainer.train.compiling import compile_environment
from xeontrain_trainer.train.config import Dataset, TrainingConfig
from xeontrain_trainer.train.environment import Environment
from xeontrain_trainer.train.errors import BadConfigError

CPUINFO = (
    "processor\t: 0\nmodel name\t: Xeon {0}\ncpu MHz\t: {1}\nflags\t: fpu {0}\n\nprocessor\t: 1\nflags\t: x\n"
)


def ask(
    folder: Path,
    *,
    compile_model: bool = True,
    job_dir: bool = True,
    kind: str = "a",
    mhz: int = 1,
    headers: bool = True,
    **environ: str,
) -> dict[str, str]:
    compiler = folder / "bin" / "g++"
    compiler.parent.mkdir(exist_ok=True)
    compiler.touch(mode=0o755)
    (folder / "include").mkdir(exist_ok=True)
    if headers:
        (folder / "include" / "Python.h").touch()
    (folder / "cpuinfo").write_text(CPUINFO.format(kind, mhz))
    names = {"XEONTRAIN_STATE_DIR": "/state"} | ({"XEONTRAIN_JOB_DIR": "/job"} if job_dir else {})
    config = TrainingConfig(task="text-classification", model="m", dataset=Dataset(), compile=compile_model)
    return compile_environment(
        config,
        environment=Environment.from_environ(names),
        environ={"PATH": str(folder / "bin"), **environ},
        cpuinfo=str(folder / "cpuinfo"),
        headers=str(folder / "include"),
    )


def test_nothing_where_nothing_is_compiled(tmp_path: Path) -> None:
    """A job that compiles nothing needs no compiler."""
    assert ask(tmp_path, compile_model=False, PATH="/none") == {}


def test_output_stays_with_the_job(tmp_path: Path) -> None:
    """In the job's folder where it has one, else in the pod; the user's own place stays."""
    assert ask(tmp_path)["TORCHINDUCTOR_CACHE_DIR"].startswith("/job/compiled/")
    assert ask(tmp_path, job_dir=False)["TORCHINDUCTOR_CACHE_DIR"].startswith("/state/compiled/")
    assert ask(tmp_path, TORCHINDUCTOR_CACHE_DIR="/mine") == {}


def test_kinds_of_cpus_do_not_share(tmp_path: Path) -> None:
    """What was compiled for one kind of CPU is not run on another; the clock does not make a kind."""
    assert ask(tmp_path) == ask(tmp_path, mhz=2)
    assert ask(tmp_path) != ask(tmp_path, kind="b")


@pytest.mark.parametrize(
    ("environ", "name"), [({"PATH": "/none"}, "g++"), ({"CXX": "icpx"}, "icpx")], ids=["none", "chosen"]
)
def test_no_compiler(tmp_path: Path, environ: dict[str, str], name: str) -> None:
    """The message names the compiler that is missing, and what to write."""
    with pytest.raises(BadConfigError, match=r"spec\.training\.compile: .*no ") as raised:
        ask(tmp_path, **environ)
    assert name in raised.value.cause
    assert "compile: false" in raised.value.remedy


def test_no_headers(tmp_path: Path) -> None:
    """A compiler alone fails at the first step, in the middle of C++."""
    with pytest.raises(BadConfigError, match=r"there is no .*/include/Python\.h in this image"):
        ask(tmp_path, headers=False)
