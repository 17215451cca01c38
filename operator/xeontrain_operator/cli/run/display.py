"""The run as a person sees it: a bar that moves on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from xeontrain_operator.cli.run.status import Status

_LINE_SECONDS: Final = 10.0
# Ranks do not end in the same moment, and rank 0 may have a model to write.
_STRAGGLER_SECONDS: Final = 60.0


class Display:
    """Shows statuses. As a context manager it owns the terminal's last line."""

    def __init__(self, console: Console, *, running: str = "Running") -> None:
        """`running` describes ranks that run and have not reported progress yet."""
        self._running = running
        self._console = console
        self._moves = console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not self._moves,
        )
        self._task: TaskID = self._progress.add_task("Starting", total=None, figures="")
        self._shown = ""
        self._shown_at = 0.0
        self._failures: set[str] = set()
        self._said: set[str] = set()

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def say(self, line: str) -> None:
        """Write a line above the bar."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def show(self, status: Status) -> None:
        """Show where the run is; failures that are new get a line each."""
        for failure in status.failures:
            if failure.get("id") not in self._failures:
                self._failures.add(str(failure.get("id")))
                self.say(_failure_line(failure))
        self._say_once(status.trouble)
        if status.stragglers.get("seconds", 0) >= _STRAGGLER_SECONDS:
            names = ", ".join(str(rank) for rank in status.stragglers.get("ranks", ()))
            self._say_once(f"Still running, while others have ended with success: rank {names}")
        progress = status.progress
        description = status.state
        if status.state == "Running":
            description = "Training" if progress else self._running
        self._progress.update(
            self._task,
            description=description,
            total=progress.get("totalSteps"),
            completed=progress.get("step", 0),
            figures=figures(progress),
        )
        if not self._moves:
            self._line(description, figures(progress))

    def _say_once(self, line: str) -> None:
        if line and line not in self._said:
            self._said.add(line)
            self.say(line)

    def _line(self, description: str, text: str) -> None:
        due = time.monotonic() - self._shown_at >= _LINE_SECONDS
        if description != self._shown.partition("  ")[0] or (due and f"{description}  {text}" != self._shown):
            self._shown, self._shown_at = f"{description}  {text}", time.monotonic()
            self.say(self._shown.rstrip())


def _failure_line(failure: dict[str, Any]) -> str:
    return f"Rank {failure.get('rank')} of worker {failure.get('worker')} failed: {failure.get('message')}"


def figures(progress: dict[str, Any]) -> str:
    """Write a progress object for people: 79/125  loss 0.4231  27.9 samples/s  1m20s left."""
    if "step" not in progress:
        return ""
    total = progress.get("totalSteps")
    parts = [f"{progress['step']}/{total}" if total else f"step {progress['step']}"]
    if "loss" in progress:
        parts.append(f"loss {progress['loss']:.4g}")
    if "samplesPerSecond" in progress:
        parts.append(f"{progress['samplesPerSecond']:.3g} samples/s")
    if "etaSeconds" in progress:
        parts.append(f"{duration(progress['etaSeconds'])} left")
    return "  ".join(parts)


def duration(seconds: float) -> str:
    """Write a duration as kubectl does: 45s, 1m20s, 2h5m."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
