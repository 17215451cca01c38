"""Steps of a running XeonTrainJob, read from the progress that its rank 0 writes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench_train.ratios import Step

POLL_SECONDS = 0.1
PROGRESS_FILE = "progress.jsonl"
TERMINATION_FILE = "termination-log"


@dataclass
class Followed:
    """What a run has told so far: its steps, and the last line of its progress."""

    steps: list[Step] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)

    def take(self, line: str | bytes, *, batch_size: int) -> None:
        """Adds a line that was written just now. That of step 0 tells what was decided, and no speed."""
        document = json.loads(line)
        since = self.last.get("step", 0)
        if document["step"] > since:
            self.steps.append(span(document, now=time.monotonic(), since=since, batch_size=batch_size))
        self.last = document


@contextmanager
def following(folder: Path, *, batch_size: int) -> Iterator[Followed]:
    """Reads, while the block runs, the progress file that appears somewhere below `folder`."""
    followed, ended = Followed(), threading.Event()
    thread = threading.Thread(
        target=_follow, args=(folder, batch_size, followed, ended), name="progress", daemon=True
    )
    thread.start()
    try:
        yield followed
    finally:
        ended.set()
        thread.join()


def _follow(folder: Path, batch_size: int, followed: Followed, ended: threading.Event) -> None:
    path, read, final = None, 0, False
    while not final:
        final = ended.wait(POLL_SECONDS)
        path = path or next(folder.rglob(PROGRESS_FILE), None)
        if path is None:
            continue
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        for line in data[read:whole].splitlines():
            followed.take(line, batch_size=batch_size)
        read = whole


def span(line: Mapping[str, Any], *, now: float, since: int, batch_size: int) -> Step:
    """A line of progress as one Step that ended now; the line's rate is that since step `since`.

    Seconds are the time within steps, so a pause between two of them (an evaluation) is no part of it.
    """
    samples = (int(line["step"]) - since) * batch_size
    return Step(now - samples / float(line["samplesPerSecond"]), now, samples)


def result_document(folder: Path) -> dict[str, Any]:
    """The verdict of a local run, as worker 0 wrote it."""
    paths = sorted(folder.glob(f"**/worker-0/{TERMINATION_FILE}"))
    return dict(json.loads(paths[-1].read_text(encoding="utf-8"))) if paths else {}
