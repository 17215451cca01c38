"""What a checkpoint says of itself, and whether its files are still what was written.

Standard library only.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..position import Position

FORMAT = 1
NAME = "manifest.json"
_CHUNK_BYTES = 1 << 20


class NotUsableError(Exception):
    """A folder is no whole checkpoint, or not one of this training; the message says why, for people."""


@dataclass(frozen=True)
class Identity:
    """What must be the same for a training to go on as if it had never stopped.

    `model` and `data` are digests: of the names and shapes of the weights, of the samples. `batch_size` is
    the global one.
    """

    architecture: str
    model: str
    data: str
    batch_size: int
    seed: int
    world_size: int
    precision: str
    ipex: bool
    torch: str
    transformers: str


@dataclass(frozen=True)
class Manifest:
    """The file `manifest.json`.

    `schedule`: the state of the learning rate. `files`: name -> its sha256 and its size in bytes.
    """

    job_uid: str
    round: int
    position: Position
    identity: Identity
    schedule: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def order(self) -> tuple[int, int]:
        """What makes one newer than another: a later round began from what it found, whatever the steps of a
        leftover of an earlier one say."""
        return (self.round, self.position.step)

    def to_json(self) -> str:
        """As it is written."""
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Raises NotUsableError."""
        try:
            document = json.loads(text)
            if document.pop("format") != FORMAT:
                raise NotUsableError("it is of a format that this trainer does not know")
            position, identity = Position(**document.pop("position")), Identity(**document.pop("identity"))
            return cls(position=position, identity=identity, **document)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise NotUsableError(f"its {NAME} is no manifest") from None


def digests(folder: str) -> dict[str, dict[str, Any]]:
    """sha256 and size in bytes of each file of the folder, but the manifest."""
    names = sorted(name for name in os.listdir(folder) if name != NAME)
    return {name: _digest(os.path.join(folder, name)) for name in names}


def read_manifest(folder: str) -> Manifest:
    """The manifest of a checkpoint, its files not looked at. Raises NotUsableError."""
    try:
        with open(os.path.join(folder, NAME), encoding="utf-8") as file:
            return Manifest.from_json(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise NotUsableError(f"its {NAME} cannot be read ({error})") from None


def check_files(folder: str, manifest: Manifest) -> None:
    """Raise NotUsableError where a file is not what was written."""
    for name, expected in manifest.files.items():
        path = os.path.join(folder, name)
        try:
            torn = os.path.getsize(path) != expected["bytes"] or _digest(path) != expected
        except OSError as error:
            raise NotUsableError(f"its {name} cannot be read ({error.strerror})") from None
        if torn:
            raise NotUsableError(f"its {name} is not what was written (size or sha256 differs)")


def _digest(path: str) -> dict[str, Any]:
    found, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            found.update(chunk)
            size += len(chunk)
    return {"sha256": found.hexdigest(), "bytes": size}
