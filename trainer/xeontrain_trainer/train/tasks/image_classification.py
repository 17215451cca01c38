"""image-classification: one class for an image."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import BadConfigError, BadDataError, MissingFileError
from ..files import TABLES
from .classification import LABEL, Classification
from .task import COLUMNS, Collator, Encoder

if TYPE_CHECKING:
    import datasets
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import nn

    from ..rows import Rows

_IMAGE = f"{COLUMNS}.image"
_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
# The farthest that an image is shifted in training, as a share of its size.
_SHIFT = 1 / 8


class ImageClassification(Classification):
    """Rows of `image` (a file's path, or its bytes) and `label`; or folders of images, each a class.

    Images are brought to the model's size once, before training, and kept as bytes; a step only shifts them a
    little and scales their values. A row is a sample and an item.
    """

    auto_model = "AutoModelForImageClassification"
    formats: ClassVar = {**TABLES, **dict.fromkeys(_SUFFIXES, "image")}
    rows_at_once = 50
    rows_a_process = 100

    def columns(self) -> dict[str, str]:
        """Image and label."""
        return {_IMAGE: self.names.image, LABEL: self.names.label}

    def check(self, rows: Rows) -> Rows:
        """Images are there, labels are plain values."""
        from ..checks import check_label, check_present, with_class_names

        check_label(rows, field=LABEL, column=self.names.label)
        rows = _undecoded(rows, column=self.names.image)
        check_present(rows, field=_IMAGE, column=self.names.image, what="image")
        rows = with_class_names(rows, column=self.names.label)
        return _found(rows, column=self.names.image)

    def load_processor(self, model_folder: str) -> Any:
        """The image processor, in its form that needs Pillow alone."""
        from transformers import AutoImageProcessor
        from transformers.utils import logging

        logging.set_verbosity_error()
        try:
            return AutoImageProcessor.from_pretrained(model_folder, backend="pil")
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise BadConfigError(
                "spec.training.model",
                cause=f"its image processor cannot be loaded: {' '.join(str(error).split())[:300]}",
                remedy="Name a model for images whose folder has preprocessor_config.json",
            ) from error

    def encoder(self, processor: Any, *, labels: Sequence[str], evaluation: bool) -> Encoder:
        """Images at the model's size, as bytes [height, width, 3]; labels as class numbers."""
        numbers, names = self.class_numbers(labels), self.names

        def encode(batch: dict[str, list[Any]], rows: list[int]) -> dict[str, list[Any]]:
            images = [_pixels(cell, processor=processor) for cell in batch[names.image]]
            return {
                "pixels": [image.tobytes() for image in images],
                "height": [image.shape[0] for image in images],
                "labels": numbers(batch[names.label]),
                "row": rows,
                "length": [1] * len(rows),
                "items": [1] * len(rows),
            }

        return encode

    def arrange(self, samples: datasets.Dataset) -> datasets.Dataset:
        """As they are, if all are of one size."""
        from pyarrow import compute

        sizes = compute.binary_length(samples.data.column("pixels"))
        if len(samples.unique("height")) > 1 or len(compute.unique(sizes)) > 1:
            raise BadConfigError(
                "spec.training.model",
                cause="its image processor brings images to different sizes",
                remedy="Name a model whose preprocessor_config.json resizes or crops to one size",
            )
        return samples

    def augment(
        self, samples: list[dict[str, Any]], *, numbers: Sequence[int], epoch: int
    ) -> list[dict[str, Any]]:
        """Each image shifted by up to an eighth of its size; the edge is continued where it leaves a gap.

        Not mirrored: a mirrored digit, letter or arrow is another one, and the job cannot say which it has.
        """
        seed = self.config.hyperparameters.seed
        return [
            {**sample, "pixels": _shifted(_image(sample), seed=seed, epoch=epoch, number=number).tobytes()}
            for sample, number in zip(samples, numbers, strict=True)
        ]

    def collator(self, processor: Any) -> Collator:
        """pixel_values: [samples, 3, height, width] float32, channels last in memory; labels: [samples]."""
        import numpy as np
        import torch

        factor, offset = _scaling(processor)

        def collate(samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
            images = np.stack([_image(sample) for sample in samples])
            pixels = torch.from_numpy(images).float().mul_(factor).add_(offset)
            labels = torch.tensor([sample["labels"] for sample in samples])
            return {"pixel_values": pixels.permute(0, 3, 1, 2), "labels": labels}

        return collate

    def ready(self, model: nn.Module) -> nn.Module:
        """Channels last, as convolutions on CPUs are fastest, and batch normalization as it was learned.

        Its statistics stay: with those of a batch, the result would depend on how ranks share the batch, and
        a few images a rank would spoil what the model has learned from millions. Its weights are trained.
        """
        import torch
        from torch.nn.modules.batchnorm import _BatchNorm

        for module in model.modules():
            if isinstance(module, _BatchNorm):
                module.eval()
        return model.to(memory_format=torch.channels_last)


def _undecoded(rows: Rows, *, column: str) -> Rows:
    """`rows` with images as bytes or paths, which datasets would decode each time it is asked for one."""
    import datasets

    kind: Any = rows.table.features[column]
    if isinstance(kind, datasets.Image):
        table = rows.table.cast_column(column, datasets.Image(decode=False))
        return dataclasses.replace(rows, table=table)
    plain = isinstance(kind, datasets.Value) and kind.dtype in (
        "string",
        "large_string",
        "binary",
        "large_binary",
    )
    pair = isinstance(kind, Mapping) and {"bytes", "path"} <= kind.keys()
    if not plain and not pair:
        raise BadDataError(
            _IMAGE,
            cause=f"{column!r} of {rows.where} holds {kind}, not images",
            remedy="Write the paths of image files, or their bytes in Parquet",
        )
    return rows


def _found(rows: Rows, *, column: str) -> Rows:
    """`rows` with whole paths for images that are files, and a stamp for what is in these."""
    cells = rows.table.data.column(column)
    if not str(cells.type).endswith("string"):
        return rows
    paths = [os.path.join(rows.folder or "", path) for path in cells.to_pylist()]
    digest = hashlib.sha256()
    for path in paths:
        try:
            stat = os.stat(path)
        except OSError as error:
            raise MissingFileError(
                _IMAGE,
                cause=f"{rows.where} names the image {path}, which cannot be read: {error.strerror}",
                remedy="Write paths that are absolute, or relative to the one folder of the data files",
            ) from None
        digest.update(f"{stat.st_size} {stat.st_mtime_ns} ".encode())
    table = rows.table.remove_columns(column).add_column(column, paths)
    return dataclasses.replace(rows, table=table, stamp=digest.hexdigest())


def _pixels(cell: Any, *, processor: Any) -> NDArray[np.uint8]:
    """An image as the model is given it, before its values are scaled: [height, width, 3]."""
    import numpy as np
    from PIL import Image, ImageOps, UnidentifiedImageError

    content = cell
    if isinstance(cell, Mapping):
        content = cell["bytes"] if cell["bytes"] is not None else cell["path"]
    name = content if isinstance(content, str) else "an image in the data"
    try:
        with Image.open(content if isinstance(content, str) else io.BytesIO(content)) as file:
            image = ImageOps.exif_transpose(file).convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise BadDataError(
            _IMAGE,
            cause=f"{name} cannot be read: {' '.join(str(error).split())}",
            remedy="Write it again, or leave it out",
        ) from None
    values = processor(image, do_rescale=False, do_normalize=False, return_tensors="np")["pixel_values"][0]
    if values.dtype != np.uint8:
        values = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return np.ascontiguousarray(np.moveaxis(values, 0, -1))


def _scaling(processor: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """What each channel of an image's bytes is multiplied by, and what is then added, for the model."""
    import torch

    scale = float(processor.rescale_factor) if processor.do_rescale else 1.0
    if not processor.do_normalize:
        return torch.full((3,), scale), torch.zeros(3)
    mean, std = (
        torch.tensor(values, dtype=torch.float32) for values in (processor.image_mean, processor.image_std)
    )
    return scale / std, -mean / std


def _image(sample: Mapping[str, Any]) -> NDArray[np.uint8]:
    import numpy as np

    return np.frombuffer(sample["pixels"], dtype=np.uint8).reshape(sample["height"], -1, 3)


def _shifted(image: NDArray[np.uint8], *, seed: int, epoch: int, number: int) -> NDArray[np.uint8]:
    import numpy as np

    words = np.random.Philox(key=np.array([seed, (epoch << 40) | number], dtype=np.uint64)).random_raw(2)
    places = []
    for size, word in zip(image.shape[:2], words, strict=True):
        farthest = int(size * _SHIFT)
        shift = int(word % (2 * farthest + 1)) - farthest
        places.append(np.clip(np.arange(size) + shift, 0, size - 1))
    # One axis after the other: four times as fast as both at once.
    return image.take(places[0], axis=0).take(places[1], axis=1)
