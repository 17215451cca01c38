"""Whole runs of a rank as the launcher starts it, in one to four ranks: outcome, files and exit codes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from xeontrain_trainer import contract
from xeontrain_trainer.train.cores import NATIVE_FLAGS
from xeontrain_trainer.train.precision import REQUIRED_SPEEDUP

from tests.contract import document
from tests.unit.trainer.train import scenarios, tiny
from tests.unit.trainer.train.ranks import Ended, run_ranks, succeeded

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]


def write_document(folder: Path, training: dict[str, object]) -> str:
    path = folder / "training.json"
    path.write_text(
        json.dumps({"contract": contract.CONTRACT_VERSION, "training": training, "checkpoint": {}})
    )
    return str(path)


def run(
    folder: Path,
    training: dict[str, object],
    *,
    world_size: int = 2,
    local_world_size: int = 1,
    **environ: str,
) -> list[Ended]:
    """Run the job in `world_size` ranks, with all the files that a launcher names."""
    folder.mkdir(exist_ok=True)
    (folder / "job").mkdir(exist_ok=True)
    names = {
        contract.ENV_TRAINING_FILE: write_document(folder, training),
        contract.ENV_JOB_DIR: str(folder / "job"),
        contract.ENV_PROGRESS_FILE: str(folder / "progress.jsonl"),
        contract.ENV_METRICS_FILE: str(folder / "metrics.json"),
        contract.ENV_STOP_FILE: str(folder / "stop"),
        contract.ENV_ROUND: "1",
        **environ,
    }
    per_rank = [{"TORCHELASTIC_ERROR_FILE": str(folder / f"error-{rank}.json")} for rank in range(world_size)]
    return run_ranks(
        scenarios.train,
        world_size=world_size,
        local_world_size=local_world_size,
        environ=names,
        per_rank=per_rank,
    )


def job(model: Path, folder: Path, **hyperparameters: object) -> dict[str, object]:
    train = tiny.write_csv(folder / "train.csv", tiny.rows(93))
    evaluate = tiny.write_csv(folder / "eval.csv", tiny.rows(31, seed=9))
    return tiny.training(model, train=[train], evaluate=[evaluate], **hyperparameters)


def progress_of(folder: Path) -> list[dict[str, Any]]:
    """The lines of the steps; the first line is that of step 0."""
    first, *lines = [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]
    assert first["step"] == 0
    return lines


def decisions_of(folder: Path) -> dict[str, Any]:
    with (folder / "progress.jsonl").open() as lines:
        return dict(json.loads(next(lines)))


def error_of(folder: Path, rank: int) -> str:
    return str(json.loads((folder / f"error-{rank}.json").read_text())["message"]["message"])


def test_two_workers_train_evaluate_and_save(tiny_model: Path, tmp_path: Path) -> None:
    """A job in two workers leaves metrics, progress to the last step, and a model that transformers loads."""
    ended = run(tmp_path, job(tiny_model, tmp_path, epochs=4))
    assert succeeded(ended) == [0, 0]
    outcome = json.loads((tmp_path / "metrics.json").read_text())
    metrics = outcome["metrics"]
    assert outcome["model"] == str(tmp_path / "job" / "model")
    assert metrics["worldSize"] == 2
    assert metrics["steps"] == 4 * 12
    assert metrics["epochs"] == 4
    assert metrics["accuracy"] >= 0.9
    assert metrics.keys() >= {"f1", "evalLoss", "trainLoss", "trainSamplesPerSecond", "trainSeconds"}
    lines = progress_of(tmp_path)
    assert [line["step"] for line in lines[:10]] == list(range(1, 11))
    assert (lines[-1]["step"], lines[-1]["totalSteps"], lines[-1]["etaSeconds"]) == (48, 48, 0)
    assert (lines[-1]["precision"], lines[-1]["backend"], lines[-1]["epoch"]) == ("FP32", "Gloo", 4)
    _check_model(tmp_path / "job" / "model", accuracy=metrics["accuracy"])


def _check_model(folder: Path, *, accuracy: float) -> None:
    """The saved model says by itself what the run measured, under the labels' own names."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = tiny.rows(31, seed=9)
    logits = model(**tokenizer([text for text, _ in rows], padding=True, return_tensors="pt")).logits
    predicted = [model.config.id2label[int(number)] for number in logits.argmax(dim=-1)]
    right = sum(label == found for (_, label), found in zip(rows, predicted, strict=True))
    assert right / len(rows) == pytest.approx(accuracy)
    assert model.config.label2id == {"ham": 0, "spam": 1}
    assert all(os.stat(folder / name).st_mode & 0o444 == 0o444 for name in os.listdir(folder))


def test_losses_do_not_depend_on_the_layout(tiny_model: Path, tmp_path: Path) -> None:
    """With dropout off the losses of the first ten steps are those of one process (1e-5), in any layout."""
    layouts = {"alone": (1, 1), "two": (2, 1), "pairs": (4, 2)}
    losses = {}
    for name, (world_size, local_world_size) in layouts.items():
        folder = tmp_path / name
        folder.mkdir()
        training = job(tiny_model, folder, dropout=0, maxSteps=10, accumulationSteps=world_size)
        ended = run(folder, training, world_size=world_size, local_world_size=local_world_size)
        assert succeeded(ended) == [0] * world_size
        losses[name] = [line["loss"] for line in progress_of(folder)]
    assert len(losses["alone"]) == 10
    assert len(set(losses["alone"])) == 10
    for name in ("two", "pairs"):
        assert losses[name] == pytest.approx(losses["alone"], abs=1e-5)


def test_loss_that_is_not_finite_ends_all_ranks(tiny_model: Path, tmp_path: Path) -> None:
    """A learning rate far too high ends every rank with the exit code for it and the remedy; no model."""
    ended = run(tmp_path, job(tiny_model, tmp_path, learningRate=1e9))
    assert succeeded(ended) == [contract.EXIT_LOSS_NOT_FINITE] * 2
    for rank in range(2):
        assert error_of(tmp_path, rank).startswith("spec.training.hyperparameters.learningRate: ")
        assert "Write a lower learningRate" in error_of(tmp_path, rank)
        assert "Traceback" not in ended[rank].stderr
    assert not (tmp_path / "job" / "model").exists()
    assert not (tmp_path / "metrics.json").exists()


def test_stop_file_stops_all_ranks_at_one_step(tiny_model: Path, tmp_path: Path) -> None:
    """Ranks agree on a request to stop, also where only one of them sees the file yet."""
    (tmp_path / "seen-by-rank-1").touch()
    stops = [
        {"XEONTRAIN_STOP_FILE": str(tmp_path / "none")},
        {"XEONTRAIN_STOP_FILE": str(tmp_path / "seen-by-rank-1")},
    ]
    ended = run_ranks(
        scenarios.train,
        world_size=2,
        environ={contract.ENV_TRAINING_FILE: write_document(tmp_path, job(tiny_model, tmp_path))},
        per_rank=stops,
    )
    assert succeeded(ended) == [contract.EXIT_INTERRUPTED] * 2
    assert all("stopped at request after step 1" in one.stderr for one in ended)


def test_workers_with_other_data_are_refused(tiny_model: Path, tmp_path: Path) -> None:
    """Two workers whose files differ would train on a mixture; the one that differs says so."""
    documents = []
    for worker in range(2):
        folder = tmp_path / str(worker)
        folder.mkdir()
        path = tiny.write_csv(folder / "train.csv", tiny.rows(20 + worker))
        documents.append(
            {contract.ENV_TRAINING_FILE: write_document(folder, tiny.training(tiny_model, train=[path]))}
        )
    # Rank 0 would wait for the group that its peer never joins; here nothing ends it as the gang would.
    environ = {"XEONTRAIN_BACKEND": "Gloo"}
    ended = run_ranks(scenarios.train, world_size=2, environ=environ, per_rank=documents, wait_for=[1])
    assert ended[1].value == contract.EXIT_BAD_DATA
    assert "worker 0 sees 20 rows" in ended[1].stderr
    assert "worker 1 sees 21 rows" in ended[1].stderr


def test_ccl_that_is_not_there_is_named(tiny_model: Path, tmp_path: Path) -> None:
    """A job that insists on oneCCL does not fall back in silence."""
    training = job(tiny_model, tmp_path)
    ended = run(tmp_path, training, XEONTRAIN_BACKEND="CCL")
    assert succeeded(ended) == [contract.EXIT_BAD_CONFIG] * 2
    assert error_of(tmp_path, 1).startswith("spec.distributed.backend: 2 of 2 ranks cannot use oneCCL: ")


def test_a_compiler_that_is_not_there_is_named(tiny_model: Path, tmp_path: Path) -> None:
    """A job that insists on what its image does not have ends at once, and does not train otherwise."""
    ended = run(tmp_path, {**job(tiny_model, tmp_path), "compile": True}, CXX="no-such-compiler")
    assert succeeded(ended) == [contract.EXIT_BAD_CONFIG] * 2
    assert error_of(tmp_path, 1).startswith("spec.training.compile: torch.compile needs")
    assert not (tmp_path / "progress.jsonl").exists()


def test_without_storage_the_log_says_so(tiny_model: Path, tmp_path: Path) -> None:
    """A job without storage succeeds and says that it keeps no model; one without eval has no accuracy."""
    path = tiny.write_csv(tmp_path / "train.csv", tiny.rows(20))
    ended = run(
        tmp_path, tiny.training(tiny_model, train=[path], maxSteps=2), world_size=1, XEONTRAIN_JOB_DIR=""
    )
    assert succeeded(ended) == [0]
    outcome = json.loads((tmp_path / "metrics.json").read_text())
    assert outcome["model"] is None
    assert "accuracy" not in outcome["metrics"]
    assert "model not kept: the job has no storage" in ended[0].stderr


def test_forced_bf16_runs_with_a_warning_or_natively(tiny_model: Path, tmp_path: Path) -> None:
    """BF16 that the job asks for is used on any core; where it is emulated, that is told."""
    training = {**job(tiny_model, tmp_path, maxSteps=2), "precision": "BF16"}
    ended = run(tmp_path, training)
    assert succeeded(ended) == [0, 0]
    assert progress_of(tmp_path)[-1]["precision"] == "BF16"
    with safe_open(tmp_path / "job" / "model" / "model.safetensors", "np") as saved:
        assert {saved.get_tensor(name).dtype.name for name in saved.keys()} == {"float32"}  # noqa: SIM118
    said = decisions_of(tmp_path)
    assert said["precisionReason"].startswith("spec.training.precision is BF16")
    assert ("warning: BF16: " in ended[0].stderr) is said["precisionEmulated"]
    assert ended[1].stderr == ""


def test_auto_measures_where_the_cores_have_bf16(tiny_model: Path, tmp_path: Path) -> None:
    """Both rates of the probe are told where there is something to choose, else what is lacking."""
    ended = run(tmp_path, {**job(tiny_model, tmp_path, maxSteps=2), "precision": "Auto"})
    assert succeeded(ended) == [0, 0]
    said = decisions_of(tmp_path)
    (row,) = [row for row in document.tables("`GET /status`")[0] if row["Key"] == "progress"]
    assert said.keys() <= set(re.findall(r'"(\w+)"', row["Meaning"]))
    native = not NATIVE_FLAGS.isdisjoint(Path("/proc/cpuinfo").read_text().split())
    assert (said.get("bf16SamplesPerSecond", 0) > 0) is native
    assert ("a probe on all ranks gave" in said["precisionReason"]) is native
    if native:
        faster = said["bf16SamplesPerSecond"] / said["fp32SamplesPerSecond"]
        assert said["precision"] == ("BF16" if faster >= REQUIRED_SPEEDUP else "FP32")


def test_each_workers_own_speed_is_told(tiny_model: Path, tmp_path: Path) -> None:
    """A worker that waits for the other is faster by itself than the job; told at the latest at the end."""
    ended = run(tmp_path, job(tiny_model, tmp_path), world_size=4, local_world_size=2)
    assert succeeded(ended) == [0] * 4
    rates = progress_of(tmp_path)[-1]["workerSamplesPerSecond"]
    assert len(rates) == 2
    whole = json.loads((tmp_path / "metrics.json").read_text())["metrics"]["trainSamplesPerSecond"]
    assert all(rate > whole / 4 for rate in rates)
