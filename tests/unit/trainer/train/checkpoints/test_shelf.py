"""The folder of checkpoints: whole or absent, the newest usable one found, others told and passed over."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from xeontrain_trainer import contract
from xeontrain_trainer.train.checkpoints import shelf
from xeontrain_trainer.train.checkpoints.manifest import NAME, Identity, Manifest, NotUsableError
from xeontrain_trainer.train.checkpoints.shelf import CheckpointWriteError
from xeontrain_trainer.train.durable import SupersededError
from xeontrain_trainer.train.environment import Environment
from xeontrain_trainer.train.position import Position

IDENTITY = Identity("Bert", "m", "d", 8, 42, 1, "FP32", False, "2", "5")


def environment(folder: Path, *, round_: int = 1) -> Environment:
    return Environment.from_environ({contract.ENV_JOB_DIR: str(folder), contract.ENV_ROUND: str(round_)})


def write(
    folder: Path,
    step: int,
    *,
    round_: int = 1,
    keep: int = 9,
    job: str = "ours",
    files: Callable[[str], None] | None = None,
) -> str:
    """A checkpoint of one file, as round `round_` writes it."""

    def content(aside: str) -> None:
        Path(aside, "weights").write_text(f"weights of step {step}")

    manifest = Manifest(job_uid=job, round=round_, position=Position(step=step), identity=IDENTITY)
    return shelf.write(
        str(folder / "checkpoints"),
        manifest,
        files=files or content,
        environment=environment(folder, round_=round_),
        keep=keep,
    )


def ours(manifest: Manifest) -> None:
    if manifest.job_uid != "ours":
        raise NotUsableError("it is of another job")


def newest(folder: Path) -> tuple[int | None, list[str]]:
    """Step of the checkpoint found, and what was said of others."""
    said: list[str] = []
    found = shelf.newest(str(folder / "checkpoints"), judge=ours, warn=said.append)
    return (found.manifest.position.step if found else None), said


def steps(folder: Path) -> list[int]:
    return sorted(int(name.removeprefix("step-")) for name in os.listdir(folder / "checkpoints"))


def test_nothing_yet(tmp_path: Path) -> None:
    """A run without checkpoints begins; the folder need not be there."""
    assert newest(tmp_path) == (None, [])


def test_the_newest_is_found_and_old_ones_go(tmp_path: Path) -> None:
    """As many are kept as asked for, the newest ones."""
    for step in (1, 2, 3, 10):
        write(tmp_path, step, keep=2)
    assert steps(tmp_path) == [3, 10]
    assert newest(tmp_path) == (10, [])


def truncate(folder: Path) -> None:
    (folder / "weights").write_text("weights of")


def flip(folder: Path) -> None:
    (folder / "weights").write_text("weights of step 8")


def lose_file(folder: Path) -> None:
    (folder / "weights").unlink()


def lose_manifest(folder: Path) -> None:
    (folder / NAME).unlink()


def cut_manifest(folder: Path) -> None:
    text = (folder / NAME).read_text()
    (folder / NAME).write_text(text[: len(text) // 2])


def foreign(folder: Path) -> None:
    document = json.loads((folder / NAME).read_text())
    (folder / NAME).write_text(json.dumps({**document, "job_uid": "theirs"}))


def later_format(folder: Path) -> None:
    document = json.loads((folder / NAME).read_text())
    (folder / NAME).write_text(json.dumps({**document, "format": 2}))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (truncate, "weights is not what was written"),
        (flip, "weights is not what was written"),
        (lose_file, "weights cannot be read"),
        (lose_manifest, "manifest.json cannot be read"),
        (cut_manifest, "manifest.json is no manifest"),
        (foreign, "another job"),
        (later_format, "a format that this trainer does not know"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_cannot_be_used_is_passed_over(tmp_path: Path, damage: Callable[[Path], None], why: str) -> None:
    """A torn or foreign checkpoint is told, with its folder, and the one before it is used."""
    write(tmp_path, 8)
    damage(Path(write(tmp_path, 9)))
    step, (said,) = newest(tmp_path)
    assert step == 8
    assert "step-00000009 is passed over" in said
    assert why in said


def test_a_later_round_counts_for_more_than_a_later_step(tmp_path: Path) -> None:
    """Round 2 began from step 5 or before: what a leftover of round 1 writes after it is no progress."""
    write(tmp_path, 5, round_=1)
    write(tmp_path, 6, round_=2)
    write(tmp_path, 7, round_=1)
    assert newest(tmp_path)[0] == 6
    write(tmp_path, 7, round_=2, keep=2)
    assert newest(tmp_path)[0] == 7
    assert steps(tmp_path) == [6, 7]


def test_a_leftover_of_an_older_round_writes_nothing(tmp_path: Path) -> None:
    """Once a newer round stands in the job's folder, nothing is renamed, and nothing is left aside."""
    write(tmp_path, 5)
    (tmp_path / "round.json").write_text(json.dumps({"round": 2}))
    with pytest.raises(SupersededError, match="round 2 has begun"):
        write(tmp_path, 6, round_=1)
    assert steps(tmp_path) == [5]
    write(tmp_path, 6, round_=2)
    assert steps(tmp_path) == [5, 6]


def test_a_full_disk_is_named_and_harms_nothing(tmp_path: Path) -> None:
    """The error names folder, cause and remedy; what was there is whole; the half is removed."""
    write(tmp_path, 5)

    def full(aside: str) -> None:
        Path(aside, "weights").write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(CheckpointWriteError, match=r"step 6 cannot be written to .*No space left on device"):
        write(tmp_path, 6, files=full)
    assert steps(tmp_path) == [5]
    assert newest(tmp_path) == (5, [])


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    """A half-written checkpoint never counts, and goes with the next one."""
    write(tmp_path, 5)
    half = tmp_path / "checkpoints" / ".tmp-1-step-00000006"
    half.mkdir()
    (half / "weights").write_text("half")
    assert newest(tmp_path) == (5, [])
    write(tmp_path, 7)
    assert steps(tmp_path) == [5, 7]


@pytest.mark.parametrize(
    "place", [".", "checkpoints", "checkpoints/step-00000009"], ids=["job", "all", "one"]
)
def test_another_runs_checkpoint_by_any_of_its_folders(tmp_path: Path, place: str) -> None:
    """A person may name the job's folder, that of its checkpoints, or a checkpoint."""
    write(tmp_path, 8, job="theirs")
    write(tmp_path, 9, job="theirs")
    found = shelf.newest(str(tmp_path / place), judge=lambda _: None, warn=pytest.fail, is_own=False)
    assert found is not None
    assert found.manifest.position.step == 9
