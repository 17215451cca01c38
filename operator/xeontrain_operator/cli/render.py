"""`xeontrain render`: the children that the operator would make."""

from __future__ import annotations

from typing import Any

import yaml

from xeontrain_operator.api.v1alpha1 import XeonTrainJob, parse_job
from xeontrain_operator.api.validation import with_name
from xeontrain_operator.builders.children import build_children
from xeontrain_operator.cli.files import InputError, JsonDict, read_manifest
from xeontrain_operator.cli.validate import job_errors
from xeontrain_operator.settings import Settings

# A document that has not met an API server has no UID; this one shows where it will stand.
PLACEHOLDER_UID = "00000000-0000-0000-0000-000000000000"


def render_file(path: str, *, settings: Settings) -> str:
    """Return the children of all jobs of a file as YAML. Raises InputError."""
    manifest = read_manifest(path)
    if not manifest.jobs:
        raise InputError(f"{manifest.source}: no XeonTrainJob in it")
    children = [
        child
        for document in manifest.jobs
        for child in build_children(checked_job(document, source=manifest.source), settings=settings)
    ]
    text: str = yaml.dump_all(children, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)
    return text


def checked_job(document: JsonDict, *, source: str, uid: str | None = None) -> XeonTrainJob:
    """Validate a document and read it, with `uid`, or where that is None with its own or a placeholder.

    Raises InputError.
    """
    errors = job_errors(document, source=source)
    if errors:
        raise InputError("\n".join(errors))
    metadata: dict[str, Any] = {"uid": PLACEHOLDER_UID, **with_name(document)["metadata"]}
    if uid is not None:
        metadata["uid"] = uid
    return parse_job({**document, "metadata": metadata})


class _Dumper(yaml.SafeDumper):
    """Writes shared pieces in full, and texts of several lines as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
