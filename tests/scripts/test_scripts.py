"""Scripts as users write them, run by `xeontrain run` as they are: ranks, threads and progress."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tools import hub_cache, make_example

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
TIMEOUT_SECONDS = 300
WORKERS = 2
# 24 samples, 4 of each rank in a step, 5 epochs.
HF_STEPS = 15
# The children must find the packages wherever this process has found them.
PATHS = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
Progress = dict[str, Any]


def job(script: Path) -> str:
    """A job that runs a script of this folder."""
    spec = {
        "workers": WORKERS,
        "resources": {"cpu": 1, "memory": "1Gi"},
        "command": ["python3", str(script)],
    }
    return yaml.safe_dump(
        {
            "apiVersion": "xeontrain.dev/v1alpha1",
            "kind": "XeonTrainJob",
            "metadata": {"name": script.stem.replace("_", "-")},
            "spec": spec,
        }
    )


def run(file: Path, *, folder: Path) -> tuple[str, list[Progress], Progress]:
    """What the run prints, the progress that its status showed, and worker 0's `cpu`."""
    command = [sys.executable, "-m", "xeontrain_operator", "run", str(file)]
    environ = {**os.environ, "PYTHONPATH": PATHS, "HF_HUB_OFFLINE": "1"}
    seen: list[Progress] = []
    cpu: Progress = {}
    with (folder / "output").open("w+") as output:
        with subprocess.Popen(command, cwd=folder, env=environ, stdout=output, stderr=output) as process:
            try:
                for status in statuses(process):
                    cpu = status["cpu"]
                    progress = status["progress"]
                    if progress is not None and progress not in seen:
                        seen.append(progress)
            finally:
                process.kill()
        output.seek(0)
        said = output.read()
    assert process.returncode == 0, said
    return said, seen, cpu


def statuses(process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    """`/status` of worker 0's launcher, again and again until the run ends."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while process.poll() is None:
        assert time.monotonic() < deadline, "the run does not end"
        time.sleep(0.05)
        try:
            port = launcher_port(process.pid)
            if port is not None:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=5) as answer:
                    yield json.load(answer)
        except (OSError, psutil.Error, ValueError):
            continue


def launcher_port(run_pid: int) -> str | None:
    """The port of worker 0's launcher, as its environment has it."""
    for child in psutil.Process(run_pid).children():
        environ = child.environ()
        if environ.get("XEONTRAIN_WORKER") == "0":
            return environ.get("XEONTRAIN_LAUNCHER_PORT")
    return None


@pytest.fixture(scope="module", autouse=True)
def models() -> None:
    """The model of the example with Hugging Face's Trainer, in the cache."""
    hub_cache.fill(hub_cache.default_cache())


@pytest.mark.parametrize(
    "script",
    [
        make_example.EXAMPLES / "own-script.yaml",
        make_example.EXAMPLES / "hf-trainer.yaml",
        HERE / "lightning_script.py",
        HERE / "accelerate_script.py",
    ],
    ids=["plain-pytorch", "hf-trainer", "lightning", "accelerate"],
)
def test_runs_unmodified(script: Path, tmp_path: Path) -> None:
    """One world of all ranks, with the plan's threads, and step, total and loss in the status."""
    file = script
    if script.suffix == ".py":
        file = tmp_path / "job.yaml"
        file.write_text(job(script))
    said, seen, cpu = run(file, folder=tmp_path)
    steps = [progress["step"] for progress in seen]
    assert steps == sorted(steps), steps
    last = seen[-1]
    assert last["step"] == last["totalSteps"] > 1, said
    assert 0 < last["loss"] < 1
    if "hf-trainer" in script.name:
        # A rank that trained by itself would have twice as many.
        assert last["totalSteps"] == HF_STEPS
        assert last["etaSeconds"] == 0
        assert last["samplesPerSecond"] > 0
        assert list(tmp_path.glob("xeontrain-hf-trainer/claims/*/*/model/model.safetensors"))
    else:
        threads = cpu["coresPerRank"]
        ranks = set(re.findall(r"rank (\d+) of (\d+): (\d+) threads", said))
        assert ranks == {(str(rank), str(WORKERS), str(threads)) for rank in range(WORKERS)}, said
