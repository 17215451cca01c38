"""Draws the pictures of docs/plan.md: `xeontrain explain --svg` on three machines made up here.

    python -m tools.plan_pictures            write them
    python -m tools.plan_pictures --check    exit 1 and name the files that differ from their sources

Sources: the planner, the drawing, and the machines below, which are written out as a recorded /sys and /proc.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from xeontrain_operator.cli.explain.command import explain_file
from xeontrain_operator.cli.explain.question import Options
from xeontrain_trainer.machine import Machine

from tests.unit.trainer.machines import build, cpuinfo, tree_of, write

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
MODEL = "Made-up Xeon"
FLAGS = "fpu avx2 avx512f avx512_vnni avx512_bf16 amx_bf16 amx_int8"

SHARED_POOL_JOB = """\
apiVersion: xeontrain.dev/v1alpha1
kind: XeonTrainJob
metadata:
  name: reviews
spec:
  resources: {cpu: 8, memory: 16Gi}
  command: [python3, train.py]
"""


@dataclass(frozen=True)
class Example:
    """A picture: the machine, the CPUs granted there, and the job's YAML where there is one."""

    name: str
    machine: Machine
    cpus: str
    job: str | None = None


EXAMPLES = (
    Example("two-sockets", build(sockets=2, cores=16, threads=2), "2-15,18-31,34-47,50-63"),
    Example("sub-numa", build(sockets=2, nodes=2, cores=12), "0-47"),
    Example("shared-pool", build(cores=16, threads=2, adjacent=True), "0-31", SHARED_POOL_JOB),
)


def draw(example: Example) -> str:
    """The SVG."""
    with tempfile.TemporaryDirectory() as folder:
        root, job, picture = Path(folder, "machine"), Path(folder, "job.yaml"), Path(folder, "plan.svg")
        blocks = [cpuinfo(number, model=MODEL, flags=FLAGS) for number in example.machine.online]
        write(root, {**tree_of(example.machine, example.machine), "proc/cpuinfo": "\n".join(blocks)})
        if example.job is not None:
            job.write_text(example.job)
        explain_file(
            None if example.job is None else str(job),
            Options(sysfs=str(root), cpus=example.cpus),
            job_name=None,
            svg=picture,
            as_json=False,
            console=Console(file=io.StringIO()),
        )
        return picture.read_text(encoding="utf-8")


def differing() -> list[Path]:
    """The pictures that are not as they would be drawn now."""
    wanted = {PICTURES / f"{example.name}.svg": draw(example) for example in EXAMPLES}
    there = set(PICTURES.glob("*.svg"))
    return sorted(
        path for path in wanted.keys() | there if path not in there or wanted.get(path) != path.read_text()
    )


def main(argv: Sequence[str]) -> int:
    """Writes or checks; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.plan_pictures")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file differs")
    if parser.parse_args(argv).check:
        for path in (old := differing()):
            print(f"{path}: differs from its sources; run make manifests", file=sys.stderr)
        return 1 if old else 0
    PICTURES.mkdir(exist_ok=True)
    for example in EXAMPLES:
        (PICTURES / f"{example.name}.svg").write_text(draw(example))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
