"""What a run tells while it goes: JSON lines for the launcher, plain lines for people."""

from __future__ import annotations

import datetime
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

# Each of the first steps is reported, so that a run shows life at once; later at most one line a second.
FIRST_STEPS = 10
INTERVAL_SECONDS = 1.0
LOG_INTERVAL_SECONDS = 10.0


@dataclass
class Progress:
    """Reports of rank 0. Silent in other ranks (`enabled` false).

    `path` takes a JSON object a line with the keys of docs/contract.md; None: no file.
    """

    path: str | None
    total_steps: int
    precision: str
    backend: str
    enabled: bool
    clock: Callable[[], float] = time.monotonic
    log: TextIO = field(default_factory=lambda: sys.stderr)
    _losses: list[float] = field(default_factory=list)
    _samples: int = 0
    _seconds: float = 0.0
    _total_steps: int = 0
    _total_seconds: float = 0.0
    _last: float = float("-inf")
    _last_log: float = float("-inf")

    def step(self, number: int, *, epoch: float, loss: float, samples: int, seconds: float) -> None:
        """Note one optimizer step (counted from 1) of `samples` rows; write it where it is time.

        The loss written is the mean over the steps since the line before: the first lines are single steps.
        """
        if not self.enabled:
            return
        self._losses.append(loss)
        self._samples += samples
        self._seconds += seconds
        self._total_steps += 1
        self._total_seconds += seconds
        last = number == self.total_steps
        now = self.clock()
        if number > FIRST_STEPS and now - self._last < INTERVAL_SECONDS and not last:
            return
        self._write(
            number,
            epoch=epoch,
            now=now,
            log=last or number == 1 or now - self._last_log >= LOG_INTERVAL_SECONDS,
        )

    def say(self, text: str) -> None:
        """One line for people, from rank 0 alone."""
        if self.enabled:
            print(text, file=self.log, flush=True)

    def _write(self, number: int, *, epoch: float, now: float, log: bool) -> None:
        loss = sum(self._losses) / len(self._losses)
        rate = self._samples / max(self._seconds, 1e-9)
        remaining = (self.total_steps - number) * self._total_seconds / self._total_steps
        line = {
            "step": number,
            "totalSteps": self.total_steps,
            "epoch": round(epoch, 4),
            "loss": loss,
            "samplesPerSecond": round(rate, 3),
            "etaSeconds": round(remaining, 1),
            "precision": self.precision,
            "backend": self.backend,
            "time": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        if self.path:
            # One write of a whole line, appended: a reader never sees half of one.
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        if log:
            self.say(
                f"step {number}/{self.total_steps}  epoch {epoch:.2f}  loss {loss:.4f}  "
                f"{rate:.1f} samples/s  {remaining:.0f} s left"
            )
            self._last_log = now
        self._last, self._losses, self._samples, self._seconds = now, [], 0, 0.0
