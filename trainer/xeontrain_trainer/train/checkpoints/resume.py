"""From which checkpoint a run goes on, and whether it will be as if it had never stopped."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import nn

from ..errors import BadConfigError, MissingFileError
from ..position import Position
from . import shelf
from .keeper import Keeper
from .manifest import Identity, Manifest, NotUsableError
from .shelf import Found
from .state import difference, load_moments, load_randoms, load_weights

_FIELD = "spec.checkpoint.resume"
# What may differ, and is then told; in the words of people.
_LAYOUT = {
    "world_size": "ranks",
    "precision": "precision",
    "ipex": "Intel's extension",
    "torch": "torch",
    "transformers": "transformers",
    "seed": "seed",
}
# Other batches than those of the checkpoint: its place among them means nothing.
_DATA = {"data": "samples", "batch_size": "batchSize"}


@dataclass(frozen=True)
class Resume:
    """What a run goes on from. `folder` is None in all ranks but 0, which alone needs to see the storage."""

    folder: str | None
    manifest: Manifest

    def differences(self, identity: Identity) -> list[str]:
        """In what this run differs from the checkpoint's, in words; none: it goes on exactly."""
        return [
            self._in_words(name, words, identity)
            for name, words in {**_LAYOUT, **_DATA}.items()
            if getattr(identity, name) != getattr(self.manifest.identity, name)
        ]

    def keeps_position(self, identity: Identity) -> bool:
        """Whether the batches are the same, so that the next one is known; else only weights are taken."""
        return all(getattr(identity, name) == getattr(self.manifest.identity, name) for name in _DATA)

    def position(self, identity: Identity) -> Position:
        """Where to go on."""
        return self.manifest.position if self.keeps_position(identity) else Position()

    def report(self, identity: Identity) -> dict[str, Any]:
        """For the progress file (docs/contract.md)."""
        differs = self.differences(identity)
        kept = self.keeps_position(identity)
        begun = "" if kept else "; the training begins at its first step, with the checkpoint's weights"
        reason = f"other than in the checkpoint: {'; '.join(differs)}{begun}" if differs else ""
        step = self.position(identity).step
        return {"step": step, "exact": not differs, "reason": reason[:500]}

    def _in_words(self, name: str, words: str, identity: Identity) -> str:
        if name == "data":
            return words
        return f"{words} ({getattr(self.manifest.identity, name)} there, {getattr(identity, name)} here)"


def find_resume(keeper: Keeper, *, model: nn.Module, say: Callable[[str], None]) -> Resume | None:
    """This job's newest checkpoint; before its first, the one that the job names to start from.

    A collective: rank 0 looks, the others hear of it. Raises in rank 0 MissingFileError or BadConfigError
    where what the job names is not there or cannot be used.
    """
    found: Found | None = None
    if keeper.environment.is_main:
        judge = _Judge(keeper.identity, job_uid=keeper.job_uid, round_=keeper.environment.round)
        if keeper.folder is not None:
            found = shelf.newest(keeper.folder, judge=judge.own, warn=lambda text: say(f"warning: {text}"))
        if found is None and keeper.config.resume is not None:
            found = _named(keeper.config.resume, judge=judge, model=model, say=say)
    said: list[Any] = [found.manifest.to_json() if found else None]
    dist.broadcast_object_list(said, src=0)
    if said[0] is None:
        return None
    return Resume(found.folder if found else None, Manifest.from_json(said[0]))


def restore(resume: Resume, *, identity: Identity, model: nn.Module, optimizer: Any, schedule: Any) -> None:
    """Put the checkpoint into model, optimizer and schedule. A collective."""
    load_weights(resume.folder, model=model)
    if not resume.keeps_position(identity):
        return
    load_moments(resume.folder, optimizer=optimizer)
    schedule.load_state_dict(dict(resume.manifest.schedule))
    for group, rate in zip(optimizer.param_groups, schedule.get_last_lr(), strict=True):
        group["lr"] = rate


def restore_randoms(resume: Resume, *, identity: Identity) -> None:
    """The ranks' random states, where there are as many as there were. A collective."""
    if resume.keeps_position(identity) and identity.world_size == resume.manifest.identity.world_size:
        load_randoms(resume.folder)


@dataclass(frozen=True)
class _Judge:
    """Which checkpoints a run may go on from; each method raises NotUsableError."""

    identity: Identity
    job_uid: str
    round_: int

    def own(self, manifest: Manifest) -> None:
        """One of this job."""
        if manifest.job_uid != self.job_uid:
            raise NotUsableError(f"it is of another job (UID {manifest.job_uid or 'unknown'})")
        if manifest.round > self.round_:
            raise NotUsableError(f"it is of round {manifest.round}, later than this one, {self.round_}")
        self.same_model(manifest)

    def same_model(self, manifest: Manifest) -> None:
        """One of any job."""
        if manifest.identity.model != self.identity.model:
            raise NotUsableError(f"it is of another model ({manifest.identity.architecture})")


def _named(path: str, *, judge: _Judge, model: nn.Module, say: Callable[[str], None]) -> Found:
    if not os.path.exists(path):
        raise MissingFileError(
            _FIELD,
            cause=f"{path} is not there",
            remedy="Name a checkpoint, or the folder of another job, as the container sees it",
        )
    refused: list[str] = []
    found = shelf.newest(path, judge=judge.same_model, warn=refused.append, is_own=False)
    if found is not None:
        for text in refused:
            say(f"warning: {text}")
        return found
    why = refused[0] if refused else f"there is no checkpoint in {path}"
    raise BadConfigError(
        _FIELD,
        cause=f"{why}{_detail(path, model=model)}",
        remedy="Name a checkpoint of the same model and task, or leave the field out",
    )


def _detail(path: str, *, model: nn.Module) -> str:
    """In which weight the models differ, where that can be read."""
    for folder in reversed(shelf.places(path)):
        try:
            text = difference(folder, model=model)
        except Exception:  # safetensors raises its own; a torn file has been told already
            return ""
        return f" ({text})" if text else ""
    return ""
