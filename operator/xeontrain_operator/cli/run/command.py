"""`xeontrain run`: from a file to a trained model."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import time
import uuid
from pathlib import Path
from typing import Final

from rich.console import Console

from xeontrain_operator.api.v1alpha1 import XeonTrainJob, XeonTrainJobSpec, cpu_millis
from xeontrain_operator.cli.files import InputError, Manifest, read_manifest, single_job
from xeontrain_operator.cli.render import checked_job
from xeontrain_operator.cli.run.cpus import Shares, as_list, share_out, usable_cpus
from xeontrain_operator.cli.run.display import Display, duration
from xeontrain_operator.cli.run.launchers import Launchers, free_port_range, free_ports, running
from xeontrain_operator.cli.run.lock import held
from xeontrain_operator.cli.run.objects import Objects
from xeontrain_operator.cli.run.output import RankOutput
from xeontrain_operator.cli.run.status import Verdict, ask, last_sentence, read_verdict
from xeontrain_operator.cli.run.unfinished import forget, last_checkpoint, recall, remember
from xeontrain_operator.cli.run.volumes import Folders
from xeontrain_operator.cli.run.worker import Ports, Worker, prepare_worker

_POLL_SECONDS: Final = 0.5
_TAIL_LINES: Final = 20


def run_file(path: str, *, output: Path | None, job_name: str | None, console: Console) -> bool:
    """Run a file's job here and say how it ended; True where it succeeded. Raises InputError."""
    manifest = read_manifest(path)
    document = single_job(manifest, name=job_name)
    job = checked_job(document, source=manifest.source, uid=str(uuid.uuid4()))
    if importlib.util.find_spec("xeontrain_trainer") is None:
        raise InputError(
            "the trainer is not installed: in the project's folder, pip install '.[operator,trainer]'"
        )
    folder = (output or Path(f"xeontrain-{job.metadata.name}")).absolute()
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(held(folder))
            earlier = recall(folder, job=job)
            job = job if earlier is None else _as_run(job, uid=earlier)
            folders, shares = _folders(job, folder), _shares(job)
            workers = _prepare(job, manifest=manifest, shares=shares, folders=folders)
            remember(folder, job=job)
        except OSError as error:
            where = error.filename or folder
            raise InputError(
                f"{where}: cannot be written: {error.strerror}; choose another folder with --output"
            ) from None
        return _say_and_run(
            job, workers=workers, shares=shares, folders=folders, console=console, goes_on=earlier is not None
        )


def _as_run(job: XeonTrainJob, *, uid: str) -> XeonTrainJob:
    """The same job as a run with this UID."""
    return job.model_copy(update={"metadata": job.metadata.model_copy(update={"uid": uid})})


def _say_and_run(
    job: XeonTrainJob,
    *,
    workers: list[Worker],
    shares: Shares,
    folders: Folders,
    console: Console,
    goes_on: bool,
) -> bool:
    display = Display(console, running="Loading model and data" if job.spec.training else "Running")
    lines = [*opening_lines(job, shares=shares), f"Logs: {_shown(folders.run)}"]
    if goes_on:
        lines.append(_going_on(workers[0].job_dir))
    for line in lines:
        display.say(line)
    return _run(job, workers=workers, folders=folders, display=display)


def _folders(job: XeonTrainJob, folder: Path) -> Folders:
    """A run that goes on with an earlier one has its checkpoints, and logs of its own."""
    runs, name = folder / "runs", job.metadata.uid[:8]
    number = 1 + len(list(runs.glob(f"{name}*")))
    run = runs / (name if number == 1 else f"{name}-{number}")
    run.mkdir(parents=True)
    return Folders(output=folder, run=run)


def _going_on(job_dir: Path) -> str:
    step = last_checkpoint(job_dir)
    where = f"its checkpoint of step {step}" if step is not None else "what it left"
    return f"Goes on with the run that was interrupted, from {where}. To begin anew remove {_shown(job_dir)}"


def _shares(job: XeonTrainJob) -> Shares:
    asked_millis = cpu_millis(job.spec.resources.cpu)
    return share_out(usable_cpus(), workers=job.spec.workers, asked_millis=asked_millis)


def _prepare(job: XeonTrainJob, *, manifest: Manifest, shares: Shares, folders: Folders) -> list[Worker]:
    objects = Objects(manifest.others, source=manifest.source)
    ports = Ports(launchers=free_ports(job.spec.workers), rendezvous=free_port_range())
    return [
        prepare_worker(
            job,
            number=number,
            cpus=shares.cpus[number],
            ports=ports,
            folders=folders,
            objects=objects,
            source=manifest.source,
        )
        for number in range(job.spec.workers)
    ]


def opening_lines(job: XeonTrainJob, *, shares: Shares) -> list[str]:
    """Return what a person should know before the run: its shape, and what counts only in a cluster."""
    spec = job.spec
    cpus = "; ".join(f"worker {number}: {as_list(share)}" for number, share in enumerate(shares.cpus[:8]))
    lines = [f"{job.metadata.name}: {_counted(spec.workers, 'worker')} on CPUs of this machine ({cpus})"]
    if shares.is_short:
        lines.append(f"Each worker asked for {shares.asked:g} CPUs and gets {len(shares.cpus[0])}")
    lines.append(f"Not enforced here: {', '.join(_not_enforced(spec))}")
    if spec.command is not None and spec.volume_mounts:
        paths = ", ".join(mount.mount_path for mount in spec.volume_mounts)
        lines.append(
            "A command runs outside of a container here: in its arguments and in workingDir, paths under "
            f"{paths} are led to this machine's folders; inside a script they are not"
        )
    return lines


def _not_enforced(spec: XeonTrainJobSpec) -> list[str]:
    asked = {
        "pinning": True,
        "memory": True,
        "image": spec.image is not None,
        "node pool": spec.node_pool is not None,
        "placement": spec.placement != type(spec.placement)(),
        "network interface": spec.distributed.interface is not None,
    }
    return [name for name, is_asked in asked.items() if is_asked]


def _run(job: XeonTrainJob, *, workers: list[Worker], folders: Folders, display: Display) -> bool:
    started, ended = time.monotonic(), list[int]()
    # A training has a progress bar, a command only what it prints.
    output = RankOutput(() if job.spec.training else [worker.log for worker in workers])
    try:
        with running(workers) as launchers, display:
            try:
                _watch(workers[0], launchers=launchers, display=display, output=output)
            except KeyboardInterrupt:
                display.say("Asked all ranks to save and end. Ctrl-C again ends them at once")
                launchers.ask_to_end(patience_seconds=job.spec.run_policy.grace_period_seconds)
                raise
            ended = launchers.ended()
        _show_output(output, display=display)
    except KeyboardInterrupt:
        # What came in the moment of the verdict interrupts nothing: the model is there.
        if read_verdict(workers[0].termination_log) is None:
            display.say(_interrupted(workers[0].job_dir))
            return False
    except OSError as error:
        raise InputError(f"the launcher cannot be started: {error}") from None
    verdict = read_verdict(workers[0].termination_log)
    if verdict is not None:
        forget(folders.output)
    took = duration(time.monotonic() - started)
    if verdict is None:
        number = ended[0] if ended else 0
        said = last_sentence(workers[number].termination_log)
        why = f": {said}" if said else ""
        display.say(f"Failed after {took}: the launcher of worker {number} ended without a verdict{why}")
        _show_tail(workers[number], display=display)
        return False
    return _show_verdict(verdict, took=took, workers=workers, folders=folders, display=display)


def _interrupted(job_dir: Path) -> str:
    step = last_checkpoint(job_dir)
    saved = "" if step is None else f" The next run goes on from the checkpoint of step {step}"
    return f"Interrupted: all processes have ended.{saved}"


def _watch(coordinator: Worker, *, launchers: Launchers, display: Display, output: RankOutput) -> None:
    """Show progress until a launcher ends; only worker 0's does so on purpose, with the verdict."""
    while not launchers.ended():
        status = ask(coordinator.port)
        if status is not None:
            display.show(status)
        _show_output(output, display=display)
        time.sleep(_POLL_SECONDS)


def _show_output(output: RankOutput, *, display: Display) -> None:
    for line in output.new_lines():
        display.say(line)


def _show_verdict(
    verdict: Verdict, *, took: str, workers: list[Worker], folders: Folders, display: Display
) -> bool:
    if not verdict.succeeded:
        display.say(f"Failed after {took} ({verdict.reason}): {verdict.message}")
        _show_tail(workers[0], display=display)
        return False
    display.say(f"Succeeded in {took}")
    for name, value in sorted(verdict.metrics.items()):
        display.say(f"  {name}: {value:.4g}")
    if verdict.model is not None:
        display.say(f"Model: {_shown(_linked(Path(verdict.model), folders=folders))}")
    return True


def _linked(model: Path, *, folders: Folders) -> Path:
    """Let `<output>/model` lead to the newest model, where nothing else has that name."""
    link = folders.output / "model"
    try:
        if link.is_symlink():
            link.unlink()
        link.symlink_to(os.path.relpath(model, folders.output), target_is_directory=True)
    except OSError:
        return model
    return link


def _shown(path: Path) -> str:
    here = os.path.relpath(path)
    return str(path) if here.startswith("..") else here


def _show_tail(worker: Worker, *, display: Display) -> None:
    lines = worker.log.read_text(encoding="utf-8", errors="replace").splitlines()
    for line in lines[-_TAIL_LINES:]:
        display.say(f"  {line}")
    display.say(f"The whole log: {_shown(worker.log)}")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
