"""Where the command speaks: results to stdout, complaints to stderr, no line broken for a narrow pipe."""

from __future__ import annotations

import typer


def say(line: str) -> None:
    """Write a line of result."""
    typer.echo(line)


def complain(line: str) -> None:
    """Write a line about something wrong."""
    typer.echo(line, err=True)
