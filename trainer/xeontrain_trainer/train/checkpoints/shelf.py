"""The folder of a job's checkpoints: written whole or not at all, the newest found, old ones removed.

Standard library only. One process writes here: rank 0 of the newest round.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..durable import check_round, flush, flush_tree
from ..environment import Environment
from .manifest import NAME, Manifest, NotUsableError, check_files, digests, read_manifest

FOLDER = "checkpoints"
_ASIDE = ".tmp-"
_STEP = re.compile(r"step-\d{8,}")


class CheckpointWriteError(RuntimeError):
    """A checkpoint cannot be written; those before it are as they were."""


@dataclass(frozen=True)
class Found:
    """A checkpoint that can be gone on from."""

    folder: str
    manifest: Manifest


def write(
    shelf: str, manifest: Manifest, *, files: Callable[[str], None], environment: Environment, keep: int
) -> str:
    """Write a checkpoint and remove all but the newest `keep`. Returns its folder.

    `files(folder)` writes all but the manifest. Raises CheckpointWriteError, or SupersededError where a newer
    round stands in the job's folder.
    """
    target = os.path.join(shelf, f"step-{manifest.position.step:08}")
    aside = os.path.join(shelf, f"{_ASIDE}{manifest.round}-{os.path.basename(target)}")
    try:
        os.makedirs(shelf, exist_ok=True)
        _clear(shelf)
        os.mkdir(aside)
        files(aside)
        _write_manifest(aside, manifest)
        flush_tree(aside)
        check_round(environment)
        _put(aside, target)
        flush(shelf)
        rotate(shelf, keep=keep)
    except OSError as error:
        raise CheckpointWriteError(
            f"the checkpoint of step {manifest.position.step} cannot be written to {target}: "
            f"{error.strerror or error}. Earlier checkpoints are whole; make room in the job's storage, or "
            "write fewer or smaller ones (spec.checkpoint.keep)"
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target


def _write_manifest(folder: str, manifest: Manifest) -> None:
    whole = dataclasses.replace(manifest, files=digests(folder))
    with open(os.path.join(folder, NAME), "w", encoding="utf-8") as file:
        file.write(whole.to_json())


def _put(aside: str, target: str) -> None:
    """One of this step is there where an earlier round came as far: no folder can be renamed over it."""
    old = f"{aside}-old"
    if os.path.exists(target):
        os.replace(target, old)
    os.replace(aside, target)
    shutil.rmtree(old, ignore_errors=True)


def _clear(shelf: str) -> None:
    """What a writer left that was killed."""
    for name in os.listdir(shelf):
        if name.startswith(_ASIDE):
            shutil.rmtree(os.path.join(shelf, name))


def rotate(shelf: str, *, keep: int) -> None:
    """Remove all checkpoints but the newest `keep`; torn ones, which are none, too."""
    kept = sorted(_manifests(shelf), key=lambda found: found.manifest.order)[-keep:]
    for folder in set(_folders(shelf)) - {found.folder for found in kept}:
        # Renamed first: what is half removed must not look like a checkpoint.
        gone = os.path.join(shelf, f"{_ASIDE}{os.path.basename(folder)}-gone")
        os.replace(folder, gone)
        shutil.rmtree(gone, ignore_errors=True)


def newest(
    place: str, *, judge: Callable[[Manifest], None], warn: Callable[[str], None], is_own: bool = True
) -> Found | None:
    """The newest whole checkpoint that `judge` does not refuse (by NotUsableError).

    `place`: a folder of checkpoints, or with `is_own` false also the folder of a job, or a checkpoint.
    `warn` gets a sentence for each that is passed over.
    """
    candidates: list[Found] = []
    for folder in _folders(place) if is_own else places(place):
        try:
            candidates.append(Found(folder, read_manifest(folder)))
        except NotUsableError as error:
            warn(f"{folder} is passed over: {error}")
    for found in sorted(candidates, key=lambda found: found.manifest.order, reverse=True):
        try:
            judge(found.manifest)
            check_files(found.folder, found.manifest)
        except NotUsableError as error:
            warn(f"{found.folder} is passed over: {error}")
        else:
            return found
    return None


def places(place: str) -> list[str]:
    """The folders of the checkpoints that `place` means: itself, a job's folder, or its folder of them."""
    if os.path.exists(os.path.join(place, NAME)):
        return [place]
    inner = os.path.join(place, FOLDER)
    return _folders(inner if os.path.isdir(inner) else place)


def _manifests(shelf: str) -> Iterator[Found]:
    for folder in _folders(shelf):
        try:
            yield Found(folder, read_manifest(folder))
        except NotUsableError:
            continue


def _folders(shelf: str) -> list[str]:
    try:
        names = os.listdir(shelf)
    except FileNotFoundError:
        return []
    return [os.path.join(shelf, name) for name in sorted(names) if _STEP.fullmatch(name)]
