"""Fine-tuning in plain PyTorch, as a user writes it for torchrun; it knows nothing of what launches it.

    torchrun --nproc-per-node 2 ddp.py --model minilm --data mail-train.csv --report report.json

All ranks together take the same global batches in the same order for any number of ranks. Rank 0 writes when
each of its steps began and ended, and its rate after the warm-up.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
SEED = 42
Batch = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Place:
    """Where this process stands among the ranks."""

    rank: int
    world_size: int

    @classmethod
    def from_environ(cls) -> Place:
        """By torchrun's names; a process without them is alone."""
        return cls(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))


def main() -> None:
    """Trains and writes the report."""
    args = _arguments()
    place = Place.from_environ()
    if place.world_size > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(SEED)
    model, rows = (_minilm if args.model == "minilm" else _resnet)(args)
    times = train(model, rows=rows, args=args, place=place)
    if place.rank == 0:
        report(times, args=args, place=place)
    if place.world_size > 1:
        dist.destroy_process_group()


def train(
    model: nn.Module, *, rows: Batch, args: argparse.Namespace, place: Place
) -> list[tuple[float, float]]:
    """Takes warm-up and counted steps; returns when each began and ended, in seconds of time.monotonic."""
    wrapped = DistributedDataParallel(model) if place.world_size > 1 else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    times = []
    for batch in batches(rows, args=args, place=place):
        started = time.monotonic()
        with torch.autocast("cpu", torch.bfloat16) if args.bf16 else contextlib.nullcontext():
            loss = wrapped(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append((started, time.monotonic()))
    return times


def batches(rows: Batch, *, args: argparse.Namespace, place: Place) -> Iterator[Batch]:
    """This rank's part of each global batch. The order depends on nothing but the seed."""
    count = len(rows["labels"])
    generator = torch.Generator().manual_seed(SEED)
    order = torch.randperm(count, generator=generator)
    for step in range(args.warmup + args.steps):
        chosen = order[torch.arange(step * args.batch_size, (step + 1) * args.batch_size) % count]
        mine = chosen[place.rank :: place.world_size]
        yield {name: tensor[mine] for name, tensor in rows.items()}


def report(times: list[tuple[float, float]], *, args: argparse.Namespace, place: Place) -> None:
    """Writes and prints the steps after the warm-up and their rate."""
    counted = times[args.warmup :]
    rate = len(counted) * args.batch_size / sum(end - start for start, end in counted)
    document = {
        "worldSize": place.world_size,
        "threads": torch.get_num_threads(),
        "samplesPerStep": args.batch_size,
        "samplesPerSecond": rate,
        "steps": counted,
    }
    print(json.dumps(document), flush=True)
    args.report.write_text(json.dumps(document), encoding="utf-8")


def _minilm(args: argparse.Namespace) -> tuple[nn.Module, Batch]:
    """The classifier of two classes, and the mail of the file padded to one length."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    with args.data.open(encoding="utf-8", newline="") as file:
        mail = list(csv.DictReader(file))
    names = sorted({row["label"] for row in mail})
    tokenizer = AutoTokenizer.from_pretrained(MINILM)
    rows = tokenizer(
        [row["text"] for row in mail],
        padding="max_length",
        truncation=True,
        max_length=args.length,
        return_tensors="pt",
    )
    labels = torch.tensor([names.index(row["label"]) for row in mail])
    model = AutoModelForSequenceClassification.from_pretrained(MINILM, num_labels=len(names))
    return model.train(), {**rows, "labels": labels}


def _resnet(args: argparse.Namespace) -> tuple[nn.Module, Batch]:
    """ResNet-50 with new weights, and pictures of noise: the arithmetic does not depend on what they show."""
    from transformers import ResNetConfig, ResNetForImageClassification

    model = ResNetForImageClassification(ResNetConfig(num_labels=10)).to(memory_format=torch.channels_last)
    generator = torch.Generator().manual_seed(SEED)
    pictures = torch.rand(8 * args.batch_size, 3, args.length, args.length, generator=generator)
    labels = torch.randint(10, (len(pictures),), generator=generator)
    pixels = pictures.contiguous(memory_format=torch.channels_last)
    return model.train(), {"pixel_values": pixels, "labels": labels}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=("minilm", "resnet"), default="minilm")
    parser.add_argument("--data", type=Path, help="CSV file with the columns text and label (minilm)")
    parser.add_argument("--length", type=int, default=64, help="tokens of a text, or pixels a side")
    parser.add_argument("--batch-size", type=int, default=16, help="of all ranks together")
    parser.add_argument("--warmup", type=int, default=4, help="steps that do not count")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--report", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
