"""`xeontrain explain`: from a job, this machine or a recorded one to a table, a picture or JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from xeontrain_operator.cli.console import complain, say
from xeontrain_operator.cli.explain.answer import Answer, ask
from xeontrain_operator.cli.explain.question import Options, Question, about_job, about_machine
from xeontrain_operator.cli.explain.svg import draw_svg
from xeontrain_operator.cli.explain.text import machine_lines, show
from xeontrain_operator.cli.files import InputError, read_manifest, single_job
from xeontrain_operator.cli.render import checked_job
from xeontrain_operator.cli.run.cpus import as_list
from xeontrain_operator.cli.run.objects import Objects


def explain_file(
    file: str | None,
    options: Options,
    *,
    job_name: str | None,
    svg: Path | None,
    as_json: bool,
    console: Console,
) -> None:
    """Explain a job's worker, or without a file one that has the whole machine. Raises InputError."""
    question = about_machine(options) if file is None else _about_file(file, options, job_name=job_name)
    answer = ask(question)
    question = replace(question, assumptions=(*_grant(question, answer), *question.assumptions))
    title = headline(question, answer)
    if svg is not None:
        _write(svg, draw_svg(answer, title=title, lines=machine_lines(answer)))
    if as_json:
        say(json.dumps(answer.public, indent=2))
        for line in question.assumptions:
            complain(f"assumed: {line}")
        return
    show(answer, title=title, assumptions=question.assumptions, source=question.source, console=console)
    if svg is not None:
        console.print(f"Picture: {svg}", markup=False, highlight=False, soft_wrap=True)


def _about_file(file: str, options: Options, *, job_name: str | None) -> Question:
    manifest = read_manifest(file)
    job = checked_job(single_job(manifest, name=job_name), source=manifest.source)
    objects = Objects(manifest.others, source=manifest.source)
    return about_job(job, options, objects=objects, source=manifest.source)


def _grant(question: Question, answer: Answer) -> tuple[str, ...]:
    """Who would choose the CPUs, where a job asks for a number of them."""
    if question.asked_cpus is None:
        return ()
    found = len(answer.granted)
    if found < question.asked_cpus:
        return (f"the job asks for {question.asked_cpus} CPUs and there are {found}: planned for these",)
    cpus = as_list(cpu.number for cpu in answer.granted)
    return (
        f"the kubelet grants CPUs {cpus}: it chooses, and only under its static policy; --cpus plans for "
        "others",
    )


def headline(question: Question, answer: Answer) -> str:
    """The plan in a line."""
    first = answer.ranks[0]
    name = f"{question.title}: " if question.title else ""
    ranks = f"{name}{_counted(len(answer.ranks), 'rank')}"
    if not answer.bound:
        return f"{ranks}, not pinned, OMP_NUM_THREADS={first.env['OMP_NUM_THREADS']}"
    spare = f" and {_counted(len(first.comm), 'CPU')} for communication" if first.comm else ""
    return f"{ranks} of {_counted(len(first.compute), 'core')}{spare}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}; name another with --svg") from None
