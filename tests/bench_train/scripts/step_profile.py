"""Where the time of a step goes: MiniLM in BF16, one CPU a rank, plain DDP over gloo, the median of 12 steps.

torchrun --nproc-per-node 2 tests/bench_train/scripts/step_profile.py --batch-size 16 --length 40
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForSequenceClassification

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
PARTS = ("forward", "backward", "clip", "optimizer")
WARMUP, STEPS = 3, 12


def main() -> None:
    """Prints one line: the parts of a step, and the exchange of all gradients by itself, in milliseconds."""
    args = _arguments()
    # Before torch makes its threads.
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[int(os.environ["LOCAL_RANK"])]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    step, num_parameters = _make_step(args.batch_size // dist.get_world_size(), length=args.length)
    for _ in range(WARMUP):
        step()
    seconds = [step() for _ in range(STEPS)]
    parts = [1000 * statistics.median(one[index] for one in seconds) for index in range(len(PARTS))]
    exchange = 1000 * _exchange_seconds(num_parameters)
    if dist.get_rank() == 0:
        shown = ", ".join(f"{name} {part:.0f}" for name, part in zip(PARTS, parts, strict=True))
        ranks = dist.get_world_size()
        print(
            f"{ranks} ranks, global batch {args.batch_size}: {shown}; in all {sum(parts):.0f} ms, "
            f"{1000 * args.batch_size / sum(parts):.1f} samples/s; gradients alone {exchange:.0f} ms"
        )
    dist.destroy_process_group()


def _make_step(batch_size: int, *, length: int) -> tuple[Callable[[], list[float]], int]:
    model = AutoModelForSequenceClassification.from_pretrained(MODEL, dtype=torch.float32).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True)
    batch = {
        "input_ids": torch.randint(1000, 20_000, (batch_size, length)),
        "labels": torch.randint(0, 2, (batch_size,)),
    }

    def step() -> list[float]:
        moments = [time.perf_counter()]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = wrapped(**batch).loss
        moments.append(time.perf_counter())
        loss.backward()
        moments.append(time.perf_counter())
        nn.utils.clip_grad_norm_(wrapped.parameters(), 1.0)
        moments.append(time.perf_counter())
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        moments.append(time.perf_counter())
        return [later - earlier for earlier, later in itertools.pairwise(moments)]

    return step, sum(tensor.numel() for tensor in model.parameters())


def _exchange_seconds(num_parameters: int) -> float:
    gradients, best = torch.zeros(num_parameters), float("inf")
    for _ in range(5):
        dist.barrier()
        started = time.perf_counter()
        dist.all_reduce(gradients)
        best = min(best, time.perf_counter() - started)
    return best


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=16, help="of all ranks")
    parser.add_argument("--length", type=int, default=40, help="tokens")
    return parser.parse_args()


if __name__ == "__main__":
    main()
