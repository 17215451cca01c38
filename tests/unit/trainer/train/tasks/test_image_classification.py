"""Images become bytes of the model's size once, and tensors as the model's own processor makes them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from xeontrain_trainer.train.config import Hyperparameters, parse_training
from xeontrain_trainer.train.data import load_samples
from xeontrain_trainer.train.errors import BadConfigError, BadDataError, MissingFileError, UserError
from xeontrain_trainer.train.model import load_model
from xeontrain_trainer.train.samples import Samples
from xeontrain_trainer.train.tasks import task_of

from tests.unit.trainer.train import jobs, tiny

SIZE = 16


def block(model: Path, path: Path | str, **columns: str) -> dict[str, Any]:
    return {
        **tiny.training(model, train=[str(path)]),
        "task": "image-classification",
        "dataset": {"files": {"train": [str(path)]}, "columns": columns},
    }


def samples_of(training: dict[str, Any], *, processes: int = 1) -> Samples:
    prepared = tiny.prepare(training, processes=processes)
    task = task_of(parse_training(training))
    processor = task.load_processor(prepared.model_folder)
    return Samples.of(load_samples(prepared, "train"), task=task, processor=processor)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six images of two classes, beside what is no image."""
    jobs.write_images(tmp_path / "images", count=6, seed=0)
    (tmp_path / "images" / "red" / ".DS_Store").touch()
    (tmp_path / "images" / "LICENSE").touch()
    return tmp_path / "images"


def paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.png"))


def as_glob(folder: Path) -> str:
    return f"{folder}/*/*.png"


def as_lines(folder: Path) -> str:
    rows = [{"image": str(path.relative_to(folder)), "label": path.parent.name} for path in paths(folder)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"{folder}/rows.jsonl"


def as_csv(folder: Path) -> str:
    rows = [(path, path.parent.name) for path in paths(folder)]
    return tiny.write_csv(folder / "rows.csv", rows, header=("image", "label"))


def as_bytes(folder: Path) -> str:
    images, labels = (
        [path.read_bytes() for path in paths(folder)],
        [path.parent.name for path in paths(folder)],
    )
    pq.write_table(pa.table({"image": images, "label": labels}), folder / "rows.parquet")
    return f"{folder}/rows.parquet"


def as_hub_does(folder: Path) -> str:
    import datasets

    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["blue", "red"])}
    )
    content = {
        "image": [str(path) for path in paths(folder)],
        "label": [("blue", "red").index(path.parent.name) for path in paths(folder)],
    }
    datasets.Dataset.from_dict(content, features=features).to_parquet(folder / "hub.parquet")
    return f"{folder}/hub.parquet"


@pytest.mark.parametrize("form", [str, as_glob, as_lines, as_csv, as_bytes, as_hub_does])
def test_every_form_gives_the_models_input(tiny_models: jobs.Models, folder: Path, form: Any) -> None:
    """What a step is given is what the model's own processor makes of the image, channels last in memory."""
    samples = samples_of(block(tiny_models.resnet, form(folder)))
    batch = samples.batch(range(6))
    processor = task_of(parse_training(block(tiny_models.resnet, "x"))).load_processor(
        str(tiny_models.resnet)
    )
    images = [Image.open(path) for path in paths(folder)]
    expected = torch.from_numpy(np.stack([processor(image)["pixel_values"][0] for image in images]))
    torch.testing.assert_close(batch["pixel_values"], expected, atol=1e-6, rtol=0)
    assert batch["pixel_values"].is_contiguous(memory_format=torch.channels_last)
    assert batch["labels"].tolist() == [0, 0, 0, 1, 1, 1]


def test_a_changed_image_is_read_again(tiny_models: jobs.Models, folder: Path) -> None:
    """A file of the same name with other content makes other samples, though the table only names it."""
    training = block(tiny_models.resnet, as_lines(folder))
    before = samples_of(training).table["pixels"][:]
    Image.new("RGB", (9, 9), "white").save(paths(folder)[0])
    after = samples_of(training).table["pixels"][:]
    assert before[1:] == after[1:]
    assert set(after[0]) == {255}


def test_shifts_depend_on_seed_epoch_and_sample_alone(tiny_models: jobs.Models, folder: Path) -> None:
    """However samples are dealt to ranks, an epoch trains on the same images; another on others."""
    samples = samples_of(block(tiny_models.resnet, folder))
    together = samples.batch(range(6), epoch=1)["pixel_values"]
    apart = [samples.batch([number], epoch=1)["pixel_values"][0] for number in (5, 4, 3, 2, 1, 0)]
    torch.testing.assert_close(together, torch.stack(apart[::-1]), atol=0, rtol=0)
    assert not torch.equal(together, samples.batch(range(6), epoch=2)["pixel_values"])
    assert not torch.equal(together, samples.batch(range(6))["pixel_values"])


def test_shifts_are_small_and_continue_the_edge(tiny_models: jobs.Models, tmp_path: Path) -> None:
    """An image of vertical stripes is shifted by at most an eighth; no value comes in that was not there."""
    stripes = np.repeat(np.arange(SIZE, dtype=np.uint8)[None, :, None], SIZE, axis=0).repeat(3, axis=2)
    task = task_of(parse_training(block(tiny_models.resnet, tmp_path)))
    sample = {"pixels": stripes.tobytes(), "height": SIZE}
    seen = set()
    for epoch in range(50):
        (shifted,) = task.augment([sample], numbers=[3], epoch=epoch)
        row = np.frombuffer(shifted["pixels"], dtype=np.uint8).reshape(SIZE, SIZE, 3)[0, :, 0]
        middle = int(row[SIZE // 2])
        assert row.tolist() == np.clip(np.arange(SIZE) + middle - SIZE // 2, 0, SIZE - 1).tolist()
        seen.add(middle - SIZE // 2)
    assert seen == {-2, -1, 0, 1, 2}


def test_processes_change_nothing(
    tiny_models: jobs.Models, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Images prepared by several processes are those of one; a broken one is told from there too."""
    training = block(tiny_models.resnet, folder)
    alone = tiny.prepare(training)
    training["hyperparameters"]["seed"] = 5
    monkeypatch.setattr(type(task_of(parse_training(training))), "rows_a_process", 3)
    (folder / "red" / "999.png").write_bytes(b"no image")
    with pytest.raises(BadDataError, match=r"columns\.image: .*999\.png cannot be read"):
        tiny.prepare(training, processes=2)
    (folder / "red" / "999.png").unlink()
    import shutil

    shutil.rmtree(alone.folder)
    assert tiny.prepare(training, processes=2).digest == alone.digest


def test_rotated_and_grey_images(tiny_models: jobs.Models, folder: Path) -> None:
    """A camera's note to turn the image is followed, and grey becomes three channels."""
    turned = Image.new("L", (SIZE, SIZE), 0)
    turned.paste(255, (0, 0, SIZE, SIZE // 2))
    exif = Image.Exif()
    exif[274] = 6  # orientation: turn to the right
    buffer = io.BytesIO()
    turned.save(buffer, format="PNG", exif=exif)
    paths(folder)[0].write_bytes(buffer.getvalue())
    samples = samples_of(block(tiny_models.resnet, folder))
    image = np.frombuffer(samples.table[0]["pixels"], dtype=np.uint8).reshape(SIZE, SIZE, 3)
    assert image[:, 12:].min() > 200
    assert image[:, :4].max() < 50


@pytest.mark.parametrize(
    ("path", "error", "text"),
    [
        (
            "rows.jsonl",
            MissingFileError,
            r"columns\.image: .*names the image .*none\.png, which cannot be read",
        ),
        ("numbers.jsonl", BadDataError, r"columns\.image: 'image' of .* holds .*int64.*, not images"),
        ("empty", BadDataError, r"files\.train\[0\]: the folders in .*empty hold no images"),
        ("*/*", BadConfigError, r"has no known format"),
    ],
    ids=["absent", "numbers", "no-images", "other-files"],
)
def test_what_is_wrong_is_named(
    tiny_models: jobs.Models, folder: Path, path: str, error: type[UserError], text: str
) -> None:
    """Images that are not there or are none are the user's error."""
    labels = ("a", "b")
    jobs.write_lines(folder / "rows.jsonl", [{"image": "none.png", "label": label} for label in labels])
    jobs.write_lines(folder / "numbers.jsonl", [{"image": 1, "label": label} for label in labels])
    (folder / "empty").mkdir()
    (folder / "blue" / "notes.md").touch()
    with pytest.raises(error, match=text):
        samples_of(block(tiny_models.resnet, folder / path))


def test_batch_normalization_stays_as_learned(tiny_models: jobs.Models) -> None:
    """Its statistics do not change in training, since they would with the number of ranks; its weights do."""
    task = task_of(parse_training(block(tiny_models.resnet, "x")))
    model: Any = load_model(str(tiny_models.resnet), task=task, labels=("a", "b"), dropout=None, seed=1)
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    before = {name: value.clone() for name, value in model.named_buffers()}
    pixels = torch.rand(4, 3, SIZE, SIZE)
    first, second = model(pixel_values=pixels[:1]).logits, model(pixel_values=pixels).logits[:1]
    torch.testing.assert_close(first, second)
    second.sum().backward()
    assert all(torch.equal(before[name], value) for name, value in model.named_buffers())
    assert norms
    assert all(norm.weight.grad is not None for norm in norms)


def test_a_model_without_image_processor(tiny_models: jobs.Models) -> None:
    """A model for text is named as such."""
    task = task_of(parse_training(block(tiny_models.bert, "x")))
    with pytest.raises(BadConfigError, match=r"spec\.training\.model: its image processor cannot be loaded"):
        task.load_processor(str(tiny_models.bert))
    assert task.config.hyperparameters == Hyperparameters(batch_size=8, max_length=32, learning_rate=5e-3)
