"""When a rank's own part of a step ended: the rest of the step it waits for others."""

from __future__ import annotations

import time

import torch
from torch import nn


class Stopwatch:
    """`last`: when the newest gradient of the model was complete here, by `time.perf_counter`.

    DDP exchanges gradients while others are still being computed and then waits for the slowest rank, all
    inside backward(): only a hook on the gradients themselves sees the moment in between.
    """

    def __init__(self, model: nn.Module) -> None:
        self.last = time.perf_counter()
        for tensor in model.parameters():
            if tensor.requires_grad:
                tensor.register_post_accumulate_grad_hook(self._note)

    def _note(self, _: torch.Tensor) -> None:
        self.last = time.perf_counter()
