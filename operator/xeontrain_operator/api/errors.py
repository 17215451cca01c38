"""Errors of a person who wrote a job: never a bug of ours, never worth a retry."""

from __future__ import annotations


class InvalidJobError(ValueError):
    """A job that cannot be read; `problems` are (field path, what is wrong and what to write)."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{path}: {message}" for path, message in problems))
