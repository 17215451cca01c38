"""What this machine's matrix products reach, and what a sample costs in arithmetic. Writes JSON.

`peak`: the best of torch.matmul on square matrices, in floating-point operations a second, by number format,
with as many threads as OMP_NUM_THREADS says. `flops`: operations of a forward and a backward pass for one
sample, counted by torch, by model and length. `padded`: tokens a text on average, padding and all, in the
batches of the built-in task, by longest length and batch size.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

SIZES = (1024, 2048, 3072)
SECONDS_A_SIZE = 2.0
FORMATS = {"FP32": torch.float32, "BF16": torch.bfloat16}
# Two lengths of text fix a x length + b x length^2, of which every other follows.
TEXT_LENGTHS = (64, 128)
SAMPLES = 2
BATCH_SIZES = (16, 64)
MINILM = "sentence-transformers/all-MiniLM-L6-v2"


def main() -> None:
    """Writes the two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pixels", type=int, default=112, help="side of the pictures")
    parser.add_argument("--texts", type=Path, required=True, help="CSV file with the column text")
    parser.add_argument("--report", type=Path, required=True)
    args = parser.parse_args()
    document = {
        "threads": torch.get_num_threads(),
        "peak": {name: peak(dtype) for name, dtype in FORMATS.items()},
        "flops": {
            "minilm": {str(length): _minilm(length) for length in TEXT_LENGTHS},
            "resnet": {str(args.pixels): _resnet(args.pixels)},
        },
        "padded": padded(args.texts),
    }
    args.report.write_text(json.dumps(document), encoding="utf-8")


def peak(dtype: torch.dtype) -> float:
    """Operations a second of the best single product over all sizes."""
    return max(_best(dtype, size=size) for size in SIZES)


def _best(dtype: torch.dtype, *, size: int) -> float:
    left, right = (torch.rand(size, size).to(dtype) for _ in range(2))
    product = torch.empty(size, size, dtype=dtype)
    best, until = float("inf"), time.monotonic() + SECONDS_A_SIZE
    torch.matmul(left, right, out=product)
    while time.monotonic() < until:
        started = time.perf_counter()
        torch.matmul(left, right, out=product)
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best


def padded(file: Path) -> dict[str, dict[str, float]]:
    """Mean tokens of a text in the built-in task's batches of its first epoch."""
    from transformers import AutoTokenizer
    from xeontrain_trainer.train.sampler import global_batches

    with file.open(encoding="utf-8", newline="") as lines:
        texts = [row["text"] for row in csv.DictReader(lines)]
    tokenizer = AutoTokenizer.from_pretrained(MINILM)

    def mean(longest: int, batch_size: int) -> float:
        tokens = tokenizer(texts, truncation=True, max_length=longest)["input_ids"]
        lengths = [len(ids) for ids in tokens]
        batches = global_batches(lengths, batch_size=batch_size, seed=42, epoch=0)
        return sum(lengths[batch.rows[0]] * len(batch.rows) for batch in batches) / len(lengths)

    return {
        str(longest): {str(size): mean(longest, size) for size in BATCH_SIZES} for longest in TEXT_LENGTHS
    }


def _minilm(length: int) -> float:
    """MiniLM's shape (sentence-transformers/all-MiniLM-L6-v2) with a head of two classes."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536, num_labels=2
    )
    tokens = torch.ones(SAMPLES, length, dtype=torch.long)
    labels = torch.zeros(SAMPLES, dtype=torch.long)
    return flops(
        BertForSequenceClassification(config),
        step=lambda model: model(input_ids=tokens, attention_mask=tokens, labels=labels).loss,
    )


def _resnet(pixels: int) -> float:
    from transformers import ResNetConfig, ResNetForImageClassification

    pictures = torch.rand(SAMPLES, 3, pixels, pixels)
    labels = torch.zeros(SAMPLES, dtype=torch.long)
    return flops(
        ResNetForImageClassification(ResNetConfig(num_labels=10)),
        step=lambda model: model(pixel_values=pictures, labels=labels).loss,
    )


def flops(model: nn.Module, *, step: Callable[[nn.Module], torch.Tensor]) -> float:
    """Operations of forward and backward for one sample; a multiplication and its addition are two."""
    counter = FlopCounterMode(display=False)
    with counter:
        step(model.train()).backward()
    return float(counter.get_total_flops()) / SAMPLES


if __name__ == "__main__":
    main()
