"""Real launchers and ranks on loopback, killed, drained, frozen and replaced, with wall clocks that jump, all
from one seed: `python -m tests.unit.trainer.launcher.chaos --seed 1 --seconds 120`.

Once the faults stop the gang must succeed. Held all the while: never ranks of two rounds alive in one pod,
rounds of a pod only grow, a verdict once seen never changes. Faults are a function of the seed; when
processes meet them is not, so a seed narrows a finding down and does not replay it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.unit.trainer.launcher.loopback import Gang, Pod, eventually

WORKERS = 3
# A rank holds its pod's lock while it lives (there is one a pod), and works until it is told to end.
RANK = """
import fcntl, os, sys, time
pod, number = os.path.dirname(os.environ["XEONTRAIN_PLAN_FILE"]), os.environ["XEONTRAIN_ROUND"]
lock = open(os.path.join(pod, "alive"), "a+")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    open(os.path.join(pod, "violation"), "a").write(f"round {number} beside another\\n")
    sys.exit(9)
with open(os.path.join(pod, "rounds"), "a") as rounds:
    rounds.write(number + "\\n")
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
"""
# The wall clock of each launcher is read through a file that the run writes: no decision may rest on it.
CLOCK = """
import time
_real = time.time
def _shifted():
    try:
        with open({path!r}) as file:
            return _real() + float(file.read() or 0)
    except (OSError, ValueError):
        return _real()
time.time = _shifted
"""


class Violation(AssertionError):
    """What must hold under every fault does not."""


class Chaos:
    """One run. `faults`: how often each has struck."""

    def __init__(self, folder: Path, *, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.faults: Counter[str] = Counter()
        self.verdict: dict[str, Any] | None = None
        self._clock = folder / "clock"
        self._stopped: list[Pod] = []

    def run(self, *, seconds: float) -> dict[str, Any]:
        """Faults for so long, then peace; the verdict. Raises Violation, or AssertionError without an end."""
        go = self.folder / "go"
        self._clock.write_text("0")
        gang = Gang(
            self.folder,
            workers=WORKERS,
            command=[sys.executable, "-c", RANK, str(go)],
            prelude=CLOCK.format(path=str(self._clock)),
            BACKOFF_LIMIT=1_000_000,
            RANKS_PER_WORKER=1,
            JOB_DIR=self.folder / "job",
        )
        with gang:
            try:
                self._trouble(gang, until=time.monotonic() + seconds)
            finally:
                self._continue_all()
            self._end_in_peace(gang, go)
            self._check(gang)
        assert self.verdict is not None
        return self.verdict

    def _trouble(self, gang: Gang, *, until: float) -> None:
        strike = (self._kill_rank, self._restart, self._replace, self._drain, self._freeze, self._jump)
        while time.monotonic() < until:
            fault = self.random.choices(strike, weights=(4, 3, 2, 2, 1, 2))[0]
            worker, pause = self.random.randrange(WORKERS), self.random.choice((0.05, 0.5, 2.0))
            fault(gang, worker)
            self._see(gang)
            time.sleep(pause)

    def _kill_rank(self, gang: Gang, worker: int) -> None:
        pod = gang.pods[worker]
        for pid in _children(pod):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.faults["rank killed"] += 1

    def _restart(self, gang: Gang, worker: int) -> None:
        pod = gang.pods[worker]
        if pod.running():
            pod.kill()
        pod.start()
        self.faults["container restarted"] += 1

    def _replace(self, gang: Gang, worker: int) -> None:
        if gang.pods[worker].running():
            gang.pods[worker].kill()
        gang.replace(worker)
        self.faults["pod replaced"] += 1

    def _drain(self, gang: Gang, worker: int) -> None:
        """Asked to end, by itself or with all others in one moment; each is replaced when it has ended."""
        workers = range(WORKERS) if self.random.random() < 0.3 else [worker]
        asked = [gang.pods[number] for number in workers if gang.pods[number].running()]
        for pod in asked:
            assert pod.process is not None
            pod.process.send_signal(signal.SIGTERM)
        for pod in asked:
            pod.exit_code()
            gang.replace(pod.worker)
            self.faults["pod drained"] += 1

    def _freeze(self, gang: Gang, worker: int) -> None:
        pod = gang.pods[worker]
        if pod.running() and pod.process is not None:
            pod.process.send_signal(signal.SIGSTOP)
            self._stopped.append(pod)
            time.sleep(self.random.choice((0.2, 2.0, 12.0)))
            self._continue_all()
            self.faults["launcher frozen"] += 1

    def _jump(self, _gang: Gang, _worker: int) -> None:
        self._clock.write_text(str(self.random.choice((-1e6, -3600, -30, 0, 30, 3600, 1e6))))
        self.faults["clock jumped"] += 1

    def _continue_all(self) -> None:
        for pod in self._stopped:
            if pod.running() and pod.process is not None:
                pod.process.send_signal(signal.SIGCONT)
        self._stopped.clear()

    def _see(self, gang: Gang) -> None:
        """A verdict that anybody tells is the only one."""
        for pod in gang.pods:
            told = pod.marker()
            if told is not None and self.verdict is not None and told != self.verdict:
                raise Violation(f"{pod.uid} says {told}, before it was {self.verdict}")
            self.verdict = self.verdict or told

    def _end_in_peace(self, gang: Gang, go: Path) -> None:
        """Containers that have ended are started again, as a kubelet does, until the verdict is there."""

        def look() -> bool:
            self._see(gang)
            for pod in gang.pods:
                if not pod.running() and pod.marker() is None:
                    pod.start()
            states = [pod.status().get("state") for pod in gang.pods]
            if states == ["Running"] * WORKERS:
                go.touch()
            return gang.pods[0].marker() is not None

        eventually(look, "the gang's success once the faults have stopped")
        self._see(gang)

    def _check(self, gang: Gang) -> None:
        if self.verdict is None or self.verdict["outcome"] != "Succeeded":
            raise Violation(f"the verdict is {self.verdict}")
        for folder in self.folder.glob("pod-*"):
            violation = folder / "state" / "violation"
            if violation.exists():
                raise Violation(f"{folder.name}: {violation.read_text()}")
            rounds = folder / "state" / "rounds"
            numbers = [int(line) for line in rounds.read_text().split()] if rounds.exists() else []
            if numbers != sorted(set(numbers)):
                raise Violation(f"{folder.name}: rounds do not grow: {numbers}")
        stored = json.loads((self.folder / "job" / "result.json").read_text())
        if stored != self.verdict:
            raise Violation(f"storage has {stored}, the gang says {self.verdict}")


def _children(pod: Pod) -> list[int]:
    """The launcher's children: its ranks."""
    if pod.process is None:
        return []
    try:
        text = Path(f"/proc/{pod.process.pid}/task/{pod.process.pid}/children").read_text()
    except OSError:
        return []
    return [int(pid) for pid in text.split()]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--seconds", type=float, default=120.0)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        chaos = Chaos(Path(folder), seed=options.seed)
        verdict = chaos.run(seconds=options.seconds)
    struck = ", ".join(f"{count} x {name}" for name, count in sorted(chaos.faults.items()))
    print(f"{verdict['outcome']} in round {verdict['round']} after {struck}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
