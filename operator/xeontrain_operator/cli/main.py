"""The commands and their options; what they do stands in the modules beside this one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from xeontrain_operator import __version__
from xeontrain_operator.api.crd import crd_yaml
from xeontrain_operator.cli.console import complain
from xeontrain_operator.cli.explain.command import explain_file
from xeontrain_operator.cli.explain.question import Options
from xeontrain_operator.cli.files import InputError
from xeontrain_operator.cli.logs import Question, show_logs
from xeontrain_operator.cli.render import render_file
from xeontrain_operator.cli.run.command import run_file
from xeontrain_operator.cli.validate import validate_files
from xeontrain_operator.settings import SettingsError, load_settings

app = typer.Typer(
    name="xeontrain",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"xeontrain {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Fine-tune models on Intel Xeon nodes of a Kubernetes cluster, or on this machine."""


FILE_HELP = "File with a XeonTrainJob, or - for standard input."


@app.command()
def validate(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Files with jobs, or - for standard input.")
    ],
) -> None:
    """Check jobs by every rule of the resource, without a cluster. Exit code 1 if anything is wrong."""
    if not validate_files(files):
        raise typer.Exit(1)


@app.command()
def render(file: Annotated[str, typer.Argument(metavar="FILE", help=FILE_HELP)]) -> None:
    """Print the objects that a job becomes, as YAML."""
    try:
        typer.echo(render_file(file, settings=load_settings(os.environ)), nl=False)
    except (InputError, SettingsError) as error:
        complain(str(error))
        raise typer.Exit(1) from None


@app.command()
def run(
    file: Annotated[str, typer.Argument(metavar="FILE", help=FILE_HELP)],
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for the model, the logs and all volumes; ./xeontrain-<job> where unset."),
    ] = None,
    job: Annotated[str | None, typer.Option(help="Name of the job, where the file has several.")] = None,
) -> None:
    """Run a job on this machine, without a cluster. Exit code 1 if it does not succeed."""
    try:
        succeeded = run_file(file, output=output, job_name=job, console=Console())
    except InputError as error:
        complain(str(error))
        raise typer.Exit(1) from None
    raise typer.Exit(0 if succeeded else 1)


@app.command()
def explain(
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help=f"{FILE_HELP} Without it a worker has the whole machine."),
    ] = None,
    sysfs: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|TAR",
            help="A recorded machine: folder or tar with its /sys and /proc; this one if unset.",
        ),
    ] = None,
    cpus: Annotated[
        str | None, typer.Option(metavar="LIST", help="CPUs that the worker is granted, such as 0-15,32-47.")
    ] = None,
    ranks: Annotated[
        str | None, typer.Option(metavar="N|auto", help="Ranks, in place of the job's ranksPerWorker.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the picture to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON and nothing else.")] = False,
    job: Annotated[str | None, typer.Option(help="Name of the job, where the file has several.")] = None,
) -> None:
    """Show which core does what for which rank: of a job, on this machine or on a recorded one."""
    try:
        explain_file(
            file,
            Options(sysfs=sysfs, cpus=cpus, ranks=ranks),
            job_name=job,
            svg=svg,
            as_json=as_json,
            console=Console(),
        )
    except InputError as error:
        complain(str(error))
        raise typer.Exit(1) from None


@app.command()
def logs(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Name of a job in the cluster.")],
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Its namespace; the kubeconfig's where unset.")
    ] = None,
    worker: Annotated[
        int | None, typer.Option(help="Which worker; worker 0, or all that were kept, where unset.")
    ] = None,
    tail: Annotated[int | None, typer.Option(min=0, help="Only the last so many lines.")] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on until the job ends, also over pods that are replaced."),
    ] = False,
) -> None:
    """Print what a worker of a live job prints, or what was kept of a finished one."""
    question = Question(job=job, namespace=namespace, worker=worker, tail=tail, follow=follow)
    try:
        show_logs(question, write=lambda text: typer.echo(text, nl=False))
    except InputError as error:
        complain(str(error))
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@app.command()
def crd() -> None:
    """Print the CustomResourceDefinition, for kubectl apply -f -."""
    typer.echo(crd_yaml(), nl=False)
