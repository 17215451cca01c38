"""`xeontrain validate`."""

from __future__ import annotations

from dataclasses import dataclass

from xeontrain_operator.api.advice import advice
from xeontrain_operator.api.v1alpha1 import parse_job
from xeontrain_operator.api.validation import validate_job, with_name
from xeontrain_operator.cli.console import complain, say
from xeontrain_operator.cli.files import InputError, JsonDict, Manifest, read_manifest


@dataclass(frozen=True)
class Verdict:
    """What was found in one file."""

    jobs: int = 0
    others: int = 0
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def validate_files(paths: list[str]) -> bool:
    """Check all documents of the files and say what is wrong; True where nothing is."""
    verdicts = [_check(path) for path in paths]
    for verdict in verdicts:
        for warning in verdict.warnings:
            complain(f"warning: {warning}")
        for error in verdict.errors:
            complain(error)
    jobs = sum(verdict.jobs for verdict in verdicts)
    errors = sum(len(verdict.errors) for verdict in verdicts)
    if jobs == 0 and errors == 0:
        complain("no XeonTrainJob found")
        return False
    others = sum(verdict.others for verdict in verdicts)
    passed_over = f"; {_counted(others, 'other object')} passed over" if others else ""
    say(f"{_counted(jobs, 'job')} checked, {_counted(errors, 'error')}{passed_over}")
    return errors == 0


def job_errors(document: JsonDict, *, source: str, several: bool = False) -> list[str]:
    """Return what is wrong with one job, a line each; `several` jobs in a file are told apart by name."""
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    where = f"{source}: {name}: " if several and name else f"{source}: "
    return [f"{where}{problem}" for problem in validate_job(document)]


def _check(path: str) -> Verdict:
    try:
        manifest = read_manifest(path)
    except InputError as error:
        return Verdict(errors=(str(error),))
    several = len(manifest.jobs) > 1
    errors = [
        error for job in manifest.jobs for error in job_errors(job, source=manifest.source, several=several)
    ]
    warnings = () if errors else tuple(f"{manifest.source}: {text}" for text in _warnings(manifest))
    return Verdict(
        jobs=len(manifest.jobs), others=len(manifest.others), errors=tuple(errors), warnings=warnings
    )


def _warnings(manifest: Manifest) -> list[str]:
    if not manifest.jobs and not manifest.others:
        return ["holds no object at all"]
    return [str(problem) for job in manifest.jobs for problem in advice(parse_job(with_name(job)).spec)]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
