"""Reading of the files that a person names on the command line."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xeontrain_operator.api.validation import is_job
from xeontrain_operator.api.yaml_dialect import DocumentError, read_documents

JsonDict = dict[str, Any]


class InputError(Exception):
    """A file that cannot be used; the text says which, why, and what to do."""


@dataclass(frozen=True)
class Manifest:
    """The documents of one file: the jobs, and all the others."""

    source: str
    jobs: list[JsonDict] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)


def read_manifest(path: str) -> Manifest:
    """Read all documents of a file, or of stdin for `-`; lists are unpacked. Raises InputError."""
    source = "stdin" if path == "-" else path
    try:
        documents = [document.value for document in read_documents(_text(path, source=source))]
    except DocumentError as error:
        raise InputError(f"{source}:{error.line}: not valid YAML: {error}") from None
    items = [item for document in documents for item in _unpacked(document)]
    return Manifest(
        source=source,
        jobs=[item for item in items if is_job(item)],
        others=[item for item in items if not is_job(item)],
    )


def single_job(manifest: Manifest, *, name: str | None) -> JsonDict:
    """Return the manifest's one job, or the one of that name. Raises InputError."""
    names = [_name(job) for job in manifest.jobs]
    if name is not None:
        for job, its_name in zip(manifest.jobs, names, strict=True):
            if its_name == name:
                return job
        there = ", ".join(names) or "none"
        raise InputError(f"{manifest.source}: no XeonTrainJob named {name}; there: {there}")
    if not manifest.jobs:
        raise InputError(f"{manifest.source}: no XeonTrainJob in it")
    if len(manifest.jobs) > 1:
        raise InputError(f"{manifest.source}: {len(names)} jobs; choose one with --job: {', '.join(names)}")
    return manifest.jobs[0]


def _name(job: JsonDict) -> str:
    metadata = job.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _text(path: str, *, source: str) -> str:
    try:
        if path == "-":
            return sys.stdin.read()
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{source}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{source}: is a folder; name the files in it") from None
    except UnicodeDecodeError:
        raise InputError(f"{source}: is not UTF-8 text") from None
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror}") from None


def _unpacked(document: Any) -> list[Any]:
    """Kubernetes' own List holds objects."""
    if (
        isinstance(document, dict)
        and document.get("kind") == "List"
        and isinstance(document.get("items"), list)
    ):
        return list(document["items"])
    return [document]
