"""The same work in pods with exclusive CPUs, one worker against two, on the test cluster. Needs root.

The two pinned nodes are on this one machine and give out one CPU each. What the cluster itself uses counts as
our own, not as others': it is part of what a pod on such a cluster gets.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xeontrain_trainer import contract

from tests.bench_train.arithmetic import MINILM, RESNET, Work
from tests.bench_train.contest import PATIENCE_SECONDS, Measured, Outcome, Say
from tests.bench_train.jobs import JOB_NAME, TRAIN_FILE, Document, job, mail_training
from tests.bench_train.process import BenchError
from tests.bench_train.progress import PROGRESS_FILE, Followed
from tests.bench_train.quiet import LoadWatch, mean_cores, wait_until_quiet
from tests.bench_train.ratios import Run, Step
from tests.bench_train.results import Result, Row, summarize
from tests.bench_train.rows import (
    BATCH_SIZE,
    DDP,
    PIXELS,
    SCALING_TARGETS,
    SHORT_TEXT,
    WARMUP,
    Setting,
    padded_length,
    scaling_steps,
    workers_of_one_cpu,
)
from tests.cluster.cluster import OPERATOR_NAMESPACE, Cluster
from tests.e2e.conftest import CHART, wait_for_operator
from tests.e2e.jobs import Namespace

JOB_SECONDS = 1200.0
POD = f"{JOB_NAME}-0"
FILES, FOLDER = "mail-and-script", "/bench"
WORKERS = (2, 1)


@dataclass(frozen=True)
class PodRow:
    """Work for pods. `spec`: of the job, but workers and CPUs. `source`: arguments of kubectl that print what
    worker 0 tells, of whose lines `take` makes steps."""

    title: str
    spec: Mapping[str, Any]
    source: tuple[str, ...]
    take: Callable[[str, Followed], None]
    target: float
    model: str
    length: float
    number_format: str
    same_work: bool = False


def pod_results(setting: Setting, *, rounds: int, gate: bool, say: Say) -> list[Result]:
    """Starts the cluster, runs the jobs of each row in turn, ends the cluster."""
    with Cluster.running(images=("thin", "operator", "trainer")) as cluster:
        cluster.helm("install", "xeontrain", CHART, "-n", OPERATOR_NAMESPACE)
        wait_for_operator(cluster)
        ns = Namespace(cluster, f"bench-{secrets.token_hex(3)}")
        cluster.kubectl("create", "namespace", ns.name)
        # Created, not applied: apply keeps a copy in an annotation, which the mail is too large for.
        ns.kubectl("create", "-f", "-", input=json.dumps(_config_map()))
        rows = (*(_mail_row(setting, size) for size in SCALING_TARGETS), _image_row(setting))
        return [_measure_row(row, ns, setting=setting, rounds=rounds, gate=gate, say=say) for row in rows]


def _mail_row(setting: Setting, batch_size: int) -> PodRow:
    steps = scaling_steps(setting, batch_size) + WARMUP
    training = mail_training(batch_size=batch_size, length=SHORT_TEXT, max_steps=steps)
    training["dataset"] = {"files": {"train": [f"{FOLDER}/{TRAIN_FILE.name}.gz"]}}
    path = f"{contract.STATE_DIR}/{PROGRESS_FILE}"
    return PodRow(
        title=f"MiniLM, built-in task in pods, global batch {batch_size}",
        spec={"training": training},
        source=("exec", POD, "-c", "trainer", "--", "tail", "-n", "+1", "-F", path),
        take=lambda line, followed: followed.take(line, batch_size=batch_size),
        target=SCALING_TARGETS[batch_size],
        model=MINILM,
        length=padded_length(setting, batch_size, SHORT_TEXT),
        number_format=setting.host.number_formats[-1],
    )


def _image_row(setting: Setting) -> PodRow:
    """In float32: the image's PyTorch need not gain from the cores' BF16."""
    sizes = ("--length", str(PIXELS), "--batch-size", str(BATCH_SIZE), "--steps", str(setting.amount.steps))
    script = ("python3", f"{FOLDER}/{Path(DDP).name}", "--model", "resnet", *sizes, "--report", "/tmp/report")
    return PodRow(
        title=f"ResNet-50, plain DDP in pods, global batch {BATCH_SIZE}",
        # Debian's PyTorch, which the test cluster's image has, is built without libuv.
        spec={"command": list(script), "env": [{"name": "USE_LIBUV", "value": "0"}]},
        source=("logs", "-f", POD, "-c", "trainer"),
        take=_take_report,
        target=SCALING_TARGETS[BATCH_SIZE],
        model=RESNET,
        length=PIXELS,
        number_format="FP32",
        same_work=True,
    )


def _take_report(line: str, followed: Followed) -> None:
    """Of the line that the script prints at its end, after the launcher's mark of the rank."""
    start = line.find('{"worldSize"')
    if start >= 0:
        report = json.loads(line[start:])
        followed.last = {key: value for key, value in report.items() if key != "steps"}
        followed.steps = [Step(began, ended, report["samplesPerStep"]) for began, ended in report["steps"]]


def _measure_row(
    row: PodRow, ns: Namespace, *, setting: Setting, rounds: int, gate: bool, say: Say
) -> Result:
    say(row.title)
    names = {workers: workers_of_one_cpu(workers) for workers in WORKERS}
    found: dict[int, list[Measured]] = {workers: [] for workers in WORKERS}
    for number in range(rounds):
        for workers in WORKERS if number % 2 == 0 else reversed(WORKERS):
            if gate and not wait_until_quiet(patience_seconds=PATIENCE_SECONDS):
                say("  others keep the machine busy")
            measured = _measure(row, ns, workers=workers, gate=gate)
            say(f"  round {number + 1}/{rounds}  {names[workers]}: {measured.run.samples_per_second:.1f}/s")
            found[workers].append(measured)
    outcomes = [Outcome(names[workers], tuple(runs)) for workers, runs in found.items()]
    return summarize(
        Row(
            title=row.title,
            contenders=(),
            target=row.target,
            work={
                names[workers]: Work(row.model, row.length, row.number_format, cpus=workers)
                for workers in WORKERS
            },
        ),
        outcomes,
        arithmetic=setting.arithmetic,
    )


def _measure(row: PodRow, ns: Namespace, *, workers: int, gate: bool) -> Measured:
    """One job from its start to its end, and gone again. Raises BenchError where it fails."""
    document = job(
        workers=workers,
        cpu=1,
        ranksPerWorker=1,
        pinning="Required",
        volumes=[{"name": FILES, "configMap": {"name": FILES}}],
        volumeMounts=[{"name": FILES, "mountPath": FOLDER}],
        **row.spec,
    )
    document["spec"]["resources"]["memory"] = "3Gi"
    started = time.monotonic()
    with LoadWatch() as watch, _following(row, ns) as followed:
        ns.apply(document)
        ended = ns.wait_for_phase(JOB_NAME, "Succeeded", "Failed", timeout_seconds=JOB_SECONDS)
    wall = time.monotonic() - started
    if ended["status"]["phase"] != "Succeeded":
        raise BenchError(f"the job failed\n{ns.story()}")
    ns.kubectl("delete", "xeontrainjob", JOB_NAME)
    ns.wait("no pods", lambda: not ns.list("pods"), timeout_seconds=120)
    # A script has left out its warm-up itself.
    steps = followed.steps if row.same_work else followed.steps[WARMUP:]
    if not steps:
        raise BenchError(f"{row.title}: no step was reported")
    run = Run.of(steps, windows=watch.windows, wall_seconds=wall, same_work=row.same_work)
    return Measured(
        run if gate else run.all_quiet(),
        others_cores=mean_cores(watch.windows) if gate else 0.0,
        facts=followed.last,
    )


@contextlib.contextmanager
def _following(row: PodRow, ns: Namespace) -> Iterator[Followed]:
    """Reads the lines of worker 0 from when it runs until the block ends."""
    followed, ended = Followed(), threading.Event()
    control_plane = ns.cluster.control_plane
    argv = [control_plane.binaries["kubectl"], "--kubeconfig", str(control_plane.kubeconfig)]
    reader = _Reader([*argv, "-n", ns.name, *row.source], row=row, followed=followed, ended=ended)
    reader.start()
    try:
        yield followed
    finally:
        ended.set()
        reader.stop()


@dataclass
class _Reader:
    """A thread that starts kubectl until it finds the pod, and takes each line as it comes."""

    argv: list[str]
    row: PodRow
    followed: Followed
    ended: threading.Event
    _process: subprocess.Popen[str] | None = None
    _thread: threading.Thread | None = field(default=None)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        assert self._thread is not None
        self._thread.join(timeout=5)
        if self._process and self._process.poll() is None:
            self._process.terminate()
        self._thread.join()

    def _read(self) -> None:
        while not self.ended.is_set():
            with subprocess.Popen(
                self.argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            ) as self._process:
                assert self._process.stdout is not None
                for line in self._process.stdout:
                    self.row.take(line, self.followed)
            if self.followed.steps:
                return
            self.ended.wait(1.0)


def _config_map() -> Document:
    """The mail, gzipped to fit, and the script."""
    mail = base64.b64encode(gzip.compress(TRAIN_FILE.read_bytes())).decode()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": FILES},
        "binaryData": {f"{TRAIN_FILE.name}.gz": mail},
        "data": {Path(DDP).name: Path(DDP).read_text(encoding="utf-8")},
    }
