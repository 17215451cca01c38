"""What the planner answers, and the child process that it runs in."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Final

from xeontrain_operator.cli.explain.question import Question
from xeontrain_operator.cli.files import InputError

JsonDict = dict[str, Any]

_PUBLIC_KEYS: Final = ("ranks", "unusedCpus", "warnings", "machine")
# What the trainer's contract calls EXIT_BAD_CONFIG: stderr holds a sentence for the user.
_REFUSED: Final = 78


@dataclass(frozen=True)
class Cpu:
    """A logical CPU, as the planner's `Cpu`."""

    number: int
    core: int
    socket: int
    node: int
    die: int
    l3: int | None
    efficient: bool


@dataclass(frozen=True)
class Rank:
    """A rank's CPUs and environment. `node`: None where it spans several."""

    rank: int
    node: int | None
    compute: tuple[int, ...]
    comm: tuple[int, ...]
    env: dict[str, str]


@dataclass(frozen=True)
class Answer:
    """The planner's document. `public`: what `--json` prints. `bound`: ranks are pinned."""

    public: JsonDict
    bound: bool

    @property
    def ranks(self) -> tuple[Rank, ...]:
        """All ranks of the worker."""
        return tuple(
            Rank(
                rank=one["rank"],
                node=one["numaNode"],
                compute=tuple(one["computeCpus"]),
                comm=tuple(one["commCpus"]),
                env=one["env"],
            )
            for one in self.public["ranks"]
        )

    @property
    def machine(self) -> JsonDict:
        """The machine's description."""
        machine: JsonDict = self.public["machine"]
        return machine

    @property
    def granted(self) -> tuple[Cpu, ...]:
        """CPUs that the worker may use."""
        return tuple(Cpu(**cpu) for cpu in self.machine["cpus"])

    @property
    def others(self) -> tuple[Cpu, ...]:
        """The machine's further CPUs."""
        return tuple(Cpu(**cpu) for cpu in self.machine["others"])

    @property
    def unused(self) -> tuple[int, ...]:
        """Granted CPUs that no rank uses."""
        return tuple(self.public["unusedCpus"])

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for people."""
        return tuple(self.public["warnings"])


def ask(question: Question) -> Answer:
    """Let the trainer's planner answer. Raises InputError with its sentence where there is no plan."""
    if importlib.util.find_spec("xeontrain_trainer") is None:
        raise InputError(
            "the trainer is not installed: in the project's folder, pip install '.[operator,trainer]'"
        )
    child = subprocess.run(
        [sys.executable, "-m", "xeontrain_trainer.plan", "--environ", *question.arguments],
        input=json.dumps(question.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    if child.returncode == _REFUSED:
        raise InputError(child.stderr.strip())
    if child.returncode != 0:
        raise InputError(f"the planner has failed; this is a bug:\n{child.stderr.strip()}")
    return read_answer(child.stdout)


def read_answer(text: str) -> Answer:
    """Read the planner's document."""
    document = json.loads(text)
    return Answer(public={key: document[key] for key in _PUBLIC_KEYS}, bound=document["bound"])
