"""What a run tells while it goes: JSON lines for the launcher, plain lines for people."""

from __future__ import annotations

import datetime
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TextIO

# Each of the first steps is reported, so that a run shows life at once; later at most one line a second.
FIRST_STEPS = 10
INTERVAL_SECONDS = 1.0
LOG_INTERVAL_SECONDS = 10.0
# The workers' own speeds are a list as long as there are workers, and change slowly.
WORKERS_INTERVAL_SECONDS = 60.0


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
    _last_workers: float = float("-inf")
    _busy_samples: int = 0
    _busy_seconds: list[float] = field(default_factory=list)
    _saved_step: int | None = None
    _last_line: dict[str, object] = field(default_factory=dict)

    def begin(self, decisions: Mapping[str, object], *, step: int = 0) -> None:
        """Write the line of the step that the run begins at, 0 or a checkpoint's: it is set up, and this is
        what its ranks decided."""
        if self.enabled:
            self._saved_step = step or None
            self._append({"step": step, "totalSteps": self.total_steps, **decisions})

    def saved(self, step: int) -> None:
        """Note that a checkpoint holds all up to `step`; told at once, by a line of that step."""
        if self.enabled:
            self._saved_step = step
            self._append({**self._last_line, "step": step, "totalSteps": self.total_steps})
            self.say(f"checkpoint of step {step} saved")

    def step(
        self,
        number: int,
        *,
        epoch: float,
        loss: float,
        samples: int,
        seconds: float,
        busy_seconds: Sequence[float] = (),
    ) -> None:
        """Note one optimizer step (counted from 1) of `samples` rows; write it where it is time.

        The loss written is the mean over the steps since the line before: the first lines are single steps.
        `busy_seconds`: by worker, how long it took for its own share.
        """
        if not self.enabled:
            return
        if busy_seconds and number > 1:
            # The first step warms up.
            before = self._busy_seconds or [0.0] * len(busy_seconds)
            self._busy_seconds = [old + new for old, new in zip(before, busy_seconds, strict=True)]
            self._busy_samples += samples
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
            **self._worker_rates(number, now=now),
        }
        self._append(line)
        self._last_line = line
        if log:
            self.say(
                f"step {number}/{self.total_steps}  epoch {epoch:.2f}  loss {loss:.4f}  "
                f"{rate:.1f} samples/s  {remaining:.0f} s left"
            )
            self._last_log = now
        self._last, self._losses, self._samples, self._seconds = now, [], 0, 0.0

    def _worker_rates(self, number: int, *, now: float) -> dict[str, list[float]]:
        """Samples a second of each worker, if it waited for no other; nothing while it is not time."""
        due = now - self._last_workers >= WORKERS_INTERVAL_SECONDS and number >= FIRST_STEPS
        if len(self._busy_seconds) < 2 or not (due or number == self.total_steps):
            return {}
        share = self._busy_samples / len(self._busy_seconds)
        rates = [round(share / max(seconds, 1e-9), 3) for seconds in self._busy_seconds]
        self._last_workers, self._busy_samples, self._busy_seconds = now, 0, []
        return {"workerSamplesPerSecond": rates}

    def _append(self, line: Mapping[str, object]) -> None:
        if self.path:
            now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            saved = {} if self._saved_step is None else {"lastCheckpointStep": self._saved_step}
            whole = {**line, **saved, "precision": self.precision, "backend": self.backend, "time": now}
            # One write of a whole line, appended: a reader never sees half of one.
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(whole) + "\n")
