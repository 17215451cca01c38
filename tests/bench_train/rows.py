"""What is measured: the rows of each section, on the CPUs of this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from xeontrain_trainer.plan.environment import GLIBC_MALLOC

from tests.bench_train import process
from tests.bench_train.arithmetic import MINILM, RESNET, Arithmetic, Work
from tests.bench_train.contest import Contender
from tests.bench_train.jobs import (
    EVAL_FILE,
    TRAIN_FILE,
    Document,
    job,
    local_run,
    mail_training,
    picture_training,
)
from tests.bench_train.launchers import launchers, with_report
from tests.bench_train.machine import Host
from tests.bench_train.process import Command
from tests.bench_train.results import Row, by_wall_time, wall_counts

SCRIPTS = Path(__file__).parent / "scripts"
DDP, NEWCOMER, PICTURES = (str(SCRIPTS / f"{name}.py") for name in ("ddp", "newcomer", "pictures"))
PIXELS = 112
BATCH_SIZE = 16
# Steps that do not count, of scripts and jobs alike.
WARMUP = 4
SHORT_TEXT, TEXT = 64, 128
LAUNCHER_TARGET = 0.98
NEWCOMER_TARGET, NEWCOMER_TARGET_NATIVE_BF16 = 1.1, 1.4
SCALING_TARGETS = {16: 1.5, 64: 1.75}


@dataclass(frozen=True)
class Amount:
    """How much each run does: steps (of BATCH_SIZE samples) that count, and whether a run from start to end
    takes its whole epoch."""

    steps: int
    whole_epoch: bool


@dataclass(frozen=True)
class Setting:
    """What the rows are made for."""

    host: Host
    amount: Amount
    arithmetic: Arithmetic | None
    folder: Path
    """Where rows may leave what they need, for as long as the benchmark runs."""


def launcher_rows(setting: Setting) -> list[Row]:
    """MiniLM under each launcher, in each number format, by one rank and by two."""
    options = ["--data", str(TRAIN_FILE), "--length", str(SHORT_TEXT)]
    return [
        _launcher_row("MiniLM", options, setting=setting, ranks=ranks, number_format=number_format)
        for number_format in setting.host.number_formats
        for ranks in _rank_counts(setting.host)
    ]


def image_launcher_rows(setting: Setting) -> list[Row]:
    """ResNet-50 under each launcher, in the narrowest format that the cores have."""
    options = ["--model", "resnet", "--length", str(PIXELS)]
    number_format = setting.host.number_formats[-1]
    return [
        _launcher_row("ResNet-50", options, setting=setting, ranks=ranks, number_format=number_format)
        for ranks in _rank_counts(setting.host)
    ]


def _launcher_row(
    name: str, options: Sequence[str], *, setting: Setting, ranks: int, number_format: str
) -> Row:
    host = setting.host
    script = [DDP, *options, "--batch-size", str(BATCH_SIZE), "--steps", str(setting.amount.steps)]
    if number_format == "BF16":
        script.append("--bf16")
    contenders = launchers(script, ranks=ranks, cpus=len(host.cpus))
    model, length = (MINILM, SHORT_TEXT) if name == "MiniLM" else (RESNET, PIXELS)
    work = Work(model, length=length, number_format=number_format, cpus=host.cores)
    return Row(
        title=f"{name}, {number_format}, {_counted(ranks, 'rank')} on {_counted(len(host.cpus), 'CPU')}",
        contenders=tuple(contenders),
        target=LAUNCHER_TARGET,
        work={contender.name: work for contender in contenders},
    )


def _rank_counts(host: Host) -> tuple[int, ...]:
    return (1, 2) if host.cores >= 2 else (1,)


def newcomer_rows(setting: Setting) -> list[Row]:
    """Our built-in task against the newcomer's script, from the start to the saved model."""
    host = setting.host
    target = NEWCOMER_TARGET_NATIVE_BF16 if host.native_bf16 else NEWCOMER_TARGET
    max_steps = None if setting.amount.whole_epoch else setting.amount.steps + WARMUP
    options = ["--evaluate", *(["--max-steps", str(max_steps)] if max_steps else [])]
    rows = []
    for ranks in _rank_counts(host):
        ours = _built_in(
            "xeontrain run, built-in task", ranks=ranks, host=host, max_steps=max_steps, evaluate=True
        )
        theirs = _newcomer("newcomer: Trainer under torchrun", options, ranks=ranks)
        rows.append(
            Row(
                title=f"MiniLM on the mail, {_counted(ranks, 'worker')} of "
                f"{_counted(len(host.cpus) // ranks, 'CPU')}",
                contenders=(ours, theirs),
                ratio=by_wall_time,
                counts=wall_counts,
                target=target,
                work={
                    ours.name: _mail_work(setting, BATCH_SIZE, TEXT, cpus=host.cores),
                    theirs.name: Work(MINILM, length=TEXT, number_format="FP32", cpus=host.cores),
                },
            )
        )
    return rows


def share_rows(setting: Setting) -> list[Row]:
    """The newcomer's script, one change after the other, up to our built-in task: one rank on all CPUs."""
    host, steps = setting.host, setting.amount.steps
    options = ["--max-steps", str(steps + WARMUP)]
    precision = [("+ precision BF16", ["--bf16"])] if host.native_bf16 else []
    changes: list[tuple[str, list[str]]] = [
        ("+ fused AdamW: the newcomer's script (Trainer's default)", ["--optimizer", "adamw_torch_fused"]),
        *precision,
        ("+ padding to the longest of a batch, lengths grouped", ["--dynamic-padding"]),
    ]
    slow = "newcomer's script, AdamW not fused"
    contenders = [_newcomer(slow, [*options, "--optimizer", "adamw_torch"], ranks=1)]
    for name, change in changes:
        options += change
        contenders.append(_newcomer(name, options, ranks=1))
    contenders += [
        _newcomer("+ allocator's variables", options, ranks=1, environ=GLIBC_MALLOC),
        _newcomer_under_xeontrain("+ threads and placement: under xeontrain run", options, host=host),
        _built_in("+ a loop of our own: the built-in task", ranks=1, host=host, max_steps=steps + WARMUP),
    ]
    return [Row(title="MiniLM on the mail, one rank", contenders=tuple(contenders), ladder=True)]


def scaling_rows(setting: Setting) -> list[Row]:
    """The built-in task by one worker of one CPU, and by two."""
    rows = []
    for batch_size, target in SCALING_TARGETS.items() if setting.host.cores >= 2 else ():
        steps = scaling_steps(setting, batch_size) + WARMUP
        training = mail_training(batch_size=batch_size, length=SHORT_TEXT, max_steps=steps)
        two, one = _two_and_one(training, batch_size=batch_size)
        rows.append(
            Row(
                title=f"MiniLM, built-in task, global batch {batch_size}",
                contenders=(two, one),
                target=target,
                work={
                    two.name: _mail_work(setting, batch_size, SHORT_TEXT, cpus=2),
                    one.name: _mail_work(setting, batch_size, SHORT_TEXT, cpus=1),
                },
            )
        )
    return rows


def _two_and_one(training: Document, *, batch_size: int) -> tuple[Contender, Contender]:
    """The same training by two workers of one CPU, and by one."""
    two, one = (
        Contender(
            workers_of_one_cpu(workers),
            _local_job(workers, training=training),
            ranks=workers,
            batch_size=batch_size,
        )
        for workers in (2, 1)
    )
    return two, one


def image_scaling_rows(setting: Setting) -> list[Row]:
    """ResNet-50 by the built-in task, by one worker of one CPU and by two."""
    if setting.host.cores < 2:
        return []
    training = picture_training(_pictures(setting), max_steps=setting.amount.steps + WARMUP)
    two, one = _two_and_one(training, batch_size=BATCH_SIZE)
    work = {
        contender.name: Work(RESNET, PIXELS, setting.host.number_formats[-1], cpus=contender.ranks)
        for contender in (two, one)
    }
    title = f"ResNet-50, built-in task, global batch {BATCH_SIZE}"
    return [Row(title=title, contenders=(two, one), target=SCALING_TARGETS[BATCH_SIZE], work=work)]


def _pictures(setting: Setting) -> Path:
    """The folder of pictures and model, made once."""
    folder = setting.folder / "pictures"
    if not folder.exists():
        folder.mkdir()
        command = (sys.executable, PICTURES, "--folder", str(folder), "--pixels", str(PIXELS))
        process.run(Command(command), folder=folder)
    return folder


SECTIONS: dict[str, Callable[[Setting], list[Row]]] = {
    "launchers": launcher_rows,
    "image-launchers": image_launcher_rows,
    "newcomer": newcomer_rows,
    "shares": share_rows,
    "scaling": scaling_rows,
    "image-scaling": image_scaling_rows,
}


def _newcomer(
    name: str, options: Sequence[str], *, ranks: int, environ: dict[str, str] | None = None
) -> Contender:
    torchrun = [str(Path(sys.executable).parent / "torchrun"), "--standalone", f"--nproc-per-node={ranks}"]
    chosen = tuple(options)

    def command(folder: Path) -> Command:
        return Command((*torchrun, *_newcomer_script(chosen, folder=folder)), environ=environ or {})

    return Contender(name, command, ranks=ranks)


def _newcomer_under_xeontrain(name: str, options: Sequence[str], *, host: Host) -> Contender:
    chosen = tuple(options)

    def command(folder: Path) -> Command:
        script = ["python3", *_newcomer_script(chosen, folder=folder)]
        document = job(workers=1, cpu=len(host.cpus), ranksPerWorker=1, command=script)
        return local_run(document, folder=folder)

    return Contender(name, command, ranks=1)


def _newcomer_script(options: Sequence[str], *, folder: Path) -> list[str]:
    data = ["--data", str(TRAIN_FILE), "--eval-data", str(EVAL_FILE), "--output", str(folder / "trained")]
    sizes = ["--batch-size", str(BATCH_SIZE), "--length", str(TEXT)]
    return with_report([NEWCOMER, *data, *sizes, *options], folder=folder)


def _built_in(
    name: str, *, ranks: int, host: Host, max_steps: int | None, evaluate: bool = False
) -> Contender:
    """The newcomer's work: the same rows, batch and longest text, and the same evaluation at the end."""
    training = mail_training(batch_size=BATCH_SIZE, length=TEXT, max_steps=max_steps, evaluate=evaluate)

    def command(folder: Path) -> Command:
        cpu = len(host.cpus) // ranks
        return local_run(job(workers=ranks, cpu=cpu, ranksPerWorker=1, training=training), folder=folder)

    return Contender(name, command, ranks=ranks, batch_size=BATCH_SIZE)


def _local_job(workers: int, *, training: Document) -> Callable[[Path], Command]:
    """Workers of one CPU each, with one rank."""
    document = job(workers=workers, cpu=1, ranksPerWorker=1, training=training)
    return lambda folder: local_run(document, folder=folder)


def _mail_work(setting: Setting, batch_size: int, longest: int, *, cpus: int) -> Work:
    """The built-in task's: padding as its batches have it, and the precision that such cores have."""
    length = padded_length(setting, batch_size, longest)
    return Work(MINILM, length=length, number_format=setting.host.number_formats[-1], cpus=cpus)


def padded_length(setting: Setting, batch_size: int, longest: int) -> float:
    """Tokens of a mail in the built-in task's batches, on average."""
    return setting.arithmetic.padded[longest][batch_size] if setting.arithmetic else longest


def scaling_steps(setting: Setting, batch_size: int) -> int:
    """Steps that count where workers are compared: about the same samples for each batch size."""
    return max(6, 2 * setting.amount.steps * BATCH_SIZE // batch_size)


def workers_of_one_cpu(workers: int) -> str:
    """A contender's name where workers are compared."""
    return f"{_counted(workers, 'worker')} of 1 CPU"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
