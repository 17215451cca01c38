"""A run that was stopped or killed ends as one that never was: the same losses, the same model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file
from xeontrain_trainer import contract
from xeontrain_trainer.train.checkpoints.manifest import NAME

from tests.unit.trainer.train import jobs, scenarios, tiny
from tests.unit.trainer.train.ranks import Ended, run_ranks, succeeded

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]
JOB_UID = "9d0ce6f4"


def run(
    folder: Path,
    training: Mapping[str, Any],
    *,
    world_size: int = 1,
    round_: int = 1,
    job_dir: Path | None = None,
    stop_after: int | None = None,
    kill_after: int | None = None,
    job_uid: str = JOB_UID,
    **checkpoint: Any,
) -> list[Ended]:
    """A round of the job.

    `stop_after`: in that step its last rank finds the stop file; `kill_after`: its ranks are killed after it.
    """
    folder.mkdir(exist_ok=True)
    job_dir = job_dir or folder / "job"
    job_dir.mkdir(exist_ok=True)
    document = {
        "contract": contract.CONTRACT_VERSION,
        "jobUid": job_uid,
        "training": training,
        "checkpoint": checkpoint,
    }
    (folder / "training.json").write_text(json.dumps(document))
    environ = {
        contract.ENV_TRAINING_FILE: str(folder / "training.json"),
        contract.ENV_PROGRESS_FILE: str(folder / f"progress-{round_}.jsonl"),
        contract.ENV_METRICS_FILE: str(folder / "metrics.json"),
        contract.ENV_ROUND: str(round_),
    }
    per_rank = [
        {
            # Only rank 0 sees the storage: the others get all through the group.
            contract.ENV_JOB_DIR: str(job_dir if rank == 0 else folder / "elsewhere"),
            contract.ENV_STOP_FILE: str(folder / f"stop-{round_}-{rank}"),
            "TORCHELASTIC_ERROR_FILE": str(folder / f"error-{rank}.json"),
        }
        for rank in range(world_size)
    ]
    return run_ranks(
        scenarios.train_until,
        world_size=world_size,
        environ=environ,
        per_rank=per_rank,
        stop_after=stop_after,
        kill_after=kill_after,
    )


def losses(folder: Path, *rounds: int) -> dict[int, float]:
    """The loss of each step, a later round's in the place of an earlier one's."""
    found: dict[int, float] = {}
    for round_ in rounds:
        for line in lines(folder, round_):
            if "loss" in line:
                found[line["step"]] = line["loss"]
    return found


def lines(folder: Path, round_: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"progress-{round_}.jsonl").read_text().splitlines()]


def error_of(folder: Path) -> str:
    return str(json.loads((folder / "error-0.json").read_text())["message"]["message"])


def job(model: Path, folder: Path, **hyperparameters: object) -> dict[str, Any]:
    """Ten steps, five an epoch, with dropout, accumulation and texts of many lengths."""
    folder.mkdir(exist_ok=True)
    train = tiny.write_csv(folder / "train.csv", tiny.rows(37))
    options = {"epochs": 2, "dropout": 0.2, "accumulationSteps": 2, **hyperparameters}
    return tiny.training(model, train=[train], **options)


@pytest.fixture(scope="module")
def undisturbed(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Folders of runs that nothing disturbed, by their number of ranks."""
    folder = tmp_path_factory.mktemp("undisturbed")
    runs = {1: folder / "1", 2: folder / "2"}
    for world_size, place in runs.items():
        assert succeeded(run(place, job(tiny_model, place), world_size=world_size)) == [0] * world_size
    return runs


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize(
    ("how", "step"),
    [("stop", 1), ("stop", 5), ("kill", 4), ("kill", 9)],
    ids=lambda value: str(value),
)
def test_losses_after_an_interruption_are_those_of_an_undisturbed_run(
    tiny_model: Path, tmp_path: Path, undisturbed: dict[int, Path], world_size: int, how: str, step: int
) -> None:
    """Exactly: after the stop flag no step is done again, after SIGKILL those since the checkpoint are."""
    training = job(tiny_model, tmp_path)
    first = run(tmp_path, training, world_size=world_size, everySteps=3, **{f"{how}_after": step})
    if how == "stop":
        assert succeeded(first) == [contract.EXIT_INTERRUPTED] * world_size
    else:
        assert all(one.error == "the process ended without an answer" for one in first)
    assert (
        succeeded(run(tmp_path, training, world_size=world_size, round_=2, everySteps=3)) == [0] * world_size
    )
    begun = lines(tmp_path, 2)[0]
    assert begun["resume"] == {"step": step if how == "stop" else step // 3 * 3, "exact": True, "reason": ""}
    assert begun["lastCheckpointStep"] == begun["step"] == begun["resume"]["step"]
    reference = undisturbed[world_size]
    assert losses(tmp_path, 1, 2) == losses(reference, 1)
    ours, theirs = (
        load_file(place / "job" / "model" / "model.safetensors") for place in (tmp_path, reference)
    )
    assert all((ours[name] == theirs[name]).all() for name in theirs)
    ours, theirs = (json.loads((place / "metrics.json").read_text()) for place in (tmp_path, reference))
    assert ours["metrics"]["trainLoss"] == theirs["metrics"]["trainLoss"]
    assert ours["metrics"]["steps"] == theirs["metrics"]["steps"] == 10


def test_images_go_on_too(tiny_models: jobs.Models, tmp_path: Path) -> None:
    """Their weights lie otherwise in memory, and the model has running means."""
    training = jobs.job("image-classification", models=tiny_models, folder=tmp_path / "data")
    training = {**training, "hyperparameters": {**training["hyperparameters"], "maxSteps": 6}}
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert succeeded(run(whole, training)) == [0]
    assert succeeded(run(parts, training, stop_after=3)) == [contract.EXIT_INTERRUPTED]
    assert succeeded(run(parts, training, round_=2)) == [0]
    assert losses(parts, 1, 2) == losses(whole, 1)


def test_a_finished_training_is_not_trained_again(tiny_model: Path, tmp_path: Path) -> None:
    """A checkpoint of the last step: a run that was lost while it evaluated only evaluates and saves."""
    training = job(tiny_model, tmp_path)
    assert succeeded(run(tmp_path, training, everySteps=5)) == [0]
    shutil.rmtree(tmp_path / "job" / "model")
    assert succeeded(run(tmp_path, training, round_=2)) == [0]
    assert losses(tmp_path, 2) == {}
    assert (tmp_path / "job" / "model").exists()


def test_another_number_of_ranks_keeps_the_place_and_says_so(tiny_model: Path, tmp_path: Path) -> None:
    """Two ranks draw other dropout than one did: the same batches, and a word of it."""
    training = job(tiny_model, tmp_path)
    assert succeeded(run(tmp_path, training, stop_after=4)) == [contract.EXIT_INTERRUPTED]
    assert succeeded(run(tmp_path, training, world_size=2, round_=2)) == [0, 0]
    begun = lines(tmp_path, 2)[0]
    assert begun["resume"]["step"] == 4
    assert begun["resume"]["exact"] is False
    assert "ranks (1 there, 2 here)" in begun["resume"]["reason"]
    assert sorted(losses(tmp_path, 2)) == list(range(5, 11))


def test_another_jobs_checkpoint_is_taken_only_where_it_is_named(tiny_model: Path, tmp_path: Path) -> None:
    """The folder of a stranger's is passed over with a warning; named in the job, it is gone on from."""
    training = job(tiny_model, tmp_path)
    assert succeeded(run(tmp_path, training, stop_after=4)) == [contract.EXIT_INTERRUPTED]
    (ended,) = run(tmp_path, training, round_=2, job_uid="another", stop_after=1)
    assert "warning: " in ended.stderr
    assert "it is of another job" in ended.stderr
    assert lines(tmp_path, 2)[0]["step"] == 0
    other = tmp_path / "other"
    named = str(tmp_path / "job")
    shutil.rmtree(tmp_path / "job" / "checkpoints" / "step-00000001")
    assert succeeded(run(other, training, job_uid="another", resume=named, stop_after=5)) == [75]
    assert lines(other, 1)[0]["resume"] == {"step": 4, "exact": True, "reason": ""}


def test_other_data_get_the_weights_alone(tiny_model: Path, tmp_path: Path) -> None:
    """Whoever names a checkpoint for other rows goes on learning from it, from the first step."""
    assert succeeded(run(tmp_path, job(tiny_model, tmp_path), stop_after=4)) == [contract.EXIT_INTERRUPTED]
    other = tmp_path / "other"
    training = job(tiny_model, other, batchSize=16)
    ended = run(other, training, job_uid="another", resume=str(tmp_path / "job"), stop_after=2)
    assert succeeded(ended) == [contract.EXIT_INTERRUPTED]
    report = lines(other, 1)[0]["resume"]
    assert (report["step"], report["exact"]) == (0, False)
    assert "batchSize (8 there, 16 here)" in report["reason"]
    assert "begins at its first step, with the checkpoint's weights" in report["reason"]


@pytest.mark.parametrize(
    ("case", "code", "words"),
    [
        ("missing", contract.EXIT_MISSING_FILE, "is not there. Name a checkpoint"),
        ("empty", contract.EXIT_BAD_CONFIG, "there is no checkpoint in"),
        ("torn", contract.EXIT_BAD_CONFIG, "manifest.json is no manifest"),
        ("another-model", contract.EXIT_BAD_CONFIG, "it is of another model (BertForSequenceClassification)"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_a_checkpoint_that_cannot_be_started_from_is_named(
    tiny_model: Path, tmp_path: Path, case: str, code: int, words: str
) -> None:
    """The job ends at once with field, cause and remedy; it does not train from nothing in silence."""
    training = job(tiny_model, tmp_path)
    if case in ("torn", "another-model"):
        assert succeeded(run(tmp_path, training, stop_after=1)) == [contract.EXIT_INTERRUPTED]
    place = tmp_path / "job"
    if case == "missing":
        place = tmp_path / "nowhere"
    if case == "torn":
        (place / "checkpoints" / "step-00000001" / NAME).write_text("{}")
    other = tmp_path / "other"
    other.mkdir()
    if case == "another-model":
        rows = [*tiny.rows(37), ("a third class", "neither")]
        training = tiny.training(tiny_model, train=[tiny.write_csv(other / "train.csv", rows)])
    if case == "empty":
        place.mkdir()
    (ended,) = run(other, training, job_uid="another", resume=str(place))
    assert ended.value == code, ended.stderr
    assert error_of(other).startswith("spec.checkpoint.resume: ")
    assert words in error_of(other)
    if case == "another-model":
        assert "classifier.bias is [2] there and [3] here" in error_of(other)


def test_stopping_without_storage_says_what_is_lost(tiny_model: Path, tmp_path: Path) -> None:
    """Nothing can be kept then, and the log says so instead of leaving it to be found out."""
    environ = tmp_path / "stop-1-0"
    environ.touch()
    ended = run_ranks(
        scenarios.train_until,
        world_size=1,
        environ={
            contract.ENV_TRAINING_FILE: _document(tmp_path, job(tiny_model, tmp_path)),
            contract.ENV_STOP_FILE: str(environ),
        },
        stop_after=None,
        kill_after=None,
    )
    assert succeeded(ended) == [contract.EXIT_INTERRUPTED]
    assert "nothing was saved, as the job has no storage (spec.storage)" in ended[0].stderr


def _document(folder: Path, training: Mapping[str, Any]) -> str:
    path = folder / "document.json"
    path.write_text(json.dumps({"contract": contract.CONTRACT_VERSION, "training": training}))
    return str(path)
