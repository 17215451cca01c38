"""Writes what the image row trains on: a folder of pictures in ten classes, and ResNet-50 with new weights.

Noise serves as well as photographs: what a step costs does not depend on what the pictures show.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from transformers import ConvNextImageProcessorPil, ResNetConfig, ResNetForImageClassification

CLASSES = 10
SEED = 42


def main() -> None:
    """Writes `train/CLASS/NUMBER.png` and `model/`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--pixels", type=int, default=112, help="side that the model is given")
    parser.add_argument("--count", type=int, default=320)
    args = parser.parse_args()
    write_pictures(args.folder / "train", pixels=args.pixels, count=args.count)
    write_model(args.folder / "model", pixels=args.pixels)


def write_pictures(folder: Path, *, pixels: int, count: int) -> None:
    """Of the size that the model is given, so that preparing them takes no time to speak of."""
    random = np.random.default_rng(SEED)
    for number in range(count):
        path = folder / str(number % CLASSES) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (pixels, pixels, 3), dtype=np.uint8)).save(path)


def write_model(folder: Path, *, pixels: int) -> None:
    """With statistics of batch normalization that fit its weights: the built-in task leaves them as they are,
    and with those of a new model the activations would grow from layer to layer."""
    torch.manual_seed(SEED)
    model = ResNetForImageClassification(ResNetConfig(num_labels=CLASSES))
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.no_grad():
        model.train()(pixel_values=torch.randn(16, 3, pixels, pixels))
    model.save_pretrained(folder)
    ConvNextImageProcessorPil(size={"shortest_edge": pixels}, crop_pct=1.0).save_pretrained(folder)


if __name__ == "__main__":
    main()
