"""When to save, and the saving itself: all ranks together, rank 0 writing."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import nn

from .. import distributed
from ..config import Checkpointing
from ..environment import Environment
from ..position import Position
from . import shelf
from .manifest import Identity, Manifest
from .state import fingerprint, random_state, write_state


@dataclass
class Keeper:
    """Keeps the checkpoints of one run. Without storage (`folder` is None) it keeps none."""

    folder: str | None
    config: Checkpointing
    environment: Environment
    job_uid: str
    identity: Identity
    clock: Callable[[], float] = time.monotonic
    _saved_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._saved_at = self.clock()

    def decide(self, *, precision: str, ipex: bool) -> Identity:
        """Note what the ranks have decided; returns the whole identity of this run."""
        self.identity = dataclasses.replace(self.identity, precision=precision, ipex=ipex)
        return self.identity

    def is_due(self, step: int) -> bool:
        """Whether `step` is to be followed by a checkpoint: rank 0's word, since clocks differ."""
        if self.folder is None or not self.environment.is_main:
            return False
        every = self.config.every_steps
        minutes = (self.clock() - self._saved_at) / 60
        return (every is not None and step % every == 0) or minutes >= self.config.every_minutes

    def save(
        self, position: Position, *, model: nn.Module, optimizer: torch.optim.Optimizer, schedule: Any
    ) -> bool:
        """Write a checkpoint; False where there is no storage. A collective: all ranks call it.

        Raises in rank 0 CheckpointWriteError or SupersededError.
        """
        if self.folder is None:
            return False
        randoms = distributed.gather(random_state())
        if self.environment.is_main:
            shelf.write(
                self.folder,
                self._manifest(position, schedule=schedule),
                files=lambda folder: write_state(folder, model=model, optimizer=optimizer, randoms=randoms),
                environment=self.environment,
                keep=self.config.keep,
            )
        self._saved_at = self.clock()
        return True

    def _manifest(self, position: Position, *, schedule: Any) -> Manifest:
        return Manifest(
            job_uid=self.job_uid,
            round=self.environment.round,
            position=position,
            identity=self.identity,
            schedule=schedule.state_dict(),
        )


def shelf_of(environment: Environment) -> str | None:
    """The folder of this job's checkpoints; None without storage."""
    return os.path.join(environment.job_dir, shelf.FOLDER) if environment.job_dir else None


def identity_of(
    model: nn.Module, *, data: str, batch_size: int, seed: int, environment: Environment
) -> Identity:
    """Of a run whose precision is not decided yet."""
    return Identity(
        architecture=type(model).__name__,
        model=fingerprint(model),
        data=data,
        batch_size=batch_size,
        seed=seed,
        world_size=environment.world_size,
        precision="",
        ipex=False,
        torch=torch.__version__,
        transformers=transformers.__version__,
    )
