"""An image that cannot start the launcher: no Python in it, or one that cannot run it.

No other try would end otherwise and the image cannot change, so the job ends at the first one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from xeontrain_operator.constants import EXIT_NOT_EXECUTABLE
from xeontrain_operator.reconcile.observed import Document
from xeontrain_operator.reconcile.pods import image_of, terminations, trainer_status
from xeontrain_operator.reconcile.situation import Situation
from xeontrain_operator.reconcile.text import quote, sentence

_INTERPRETER: Final = "python3"
# The kubelet's words for a process that the container runtime could not start; the runtime's own are in the
# message. A start can also fail for a fault of the node, which passes.
_NOT_STARTED: Final = frozenset(
    {"StartError", "ContainerCannotRun", "RunContainerError", "CreateContainerError"}
)
_NOT_THERE: Final = re.compile(r"not found|no such file or directory", re.IGNORECASE)
_NOT_USABLE: Final = re.compile(r"permission denied|exec format error", re.IGNORECASE)
# How the launcher's own file begins what it says of a Python that is too old or not whole.
_OWN_WORDS: Final = "spec.image: "


def unstartable(situation: Situation) -> str | None:
    """Field, image, cause and remedy, where a worker's container can never start; None otherwise."""
    found = (
        _why(pod, worker=worker, spec_image=situation.spec.image) for worker, pod in situation.pods.items()
    )
    return next((why for why in found if why is not None), None)


def _why(pod: Document, *, worker: int, spec_image: str | None) -> str | None:
    for state in _ends(pod):
        said = str(state.get("message") or "")
        if state.get("exitCode") == EXIT_NOT_EXECUTABLE and said.startswith(_OWN_WORDS):
            return sentence(quote(said))
        if state.get("reason") in _NOT_STARTED and _INTERPRETER in said:
            cause = _cause(said)
            if cause is not None:
                return _in_words(cause, image=image_of(pod), said=said, worker=worker, spec_image=spec_image)
    return None


def _ends(pod: Document) -> Iterator[Mapping[str, Any]]:
    waiting = (trainer_status(pod).get("state") or {}).get("waiting")
    yield from (waiting,) if waiting else ()
    yield from terminations(pod)


def _cause(said: str) -> str | None:
    if _NOT_THERE.search(said):
        return f"has no {_INTERPRETER} in its PATH"
    return f"has a {_INTERPRETER} that cannot be executed" if _NOT_USABLE.search(said) else None


def _in_words(cause: str, *, image: str, said: str, worker: int, spec_image: str | None) -> str:
    field, remedy = "spec.image", "Use an image with Python 3.9 or later"
    if spec_image is None:
        field, remedy = "the chart's images.trainer", "Correct its name in the chart's values"
    else:
        remedy += ", or leave out spec.image to get the operator's own"
    return f"{field}: {image} {cause}, which starts the launcher (worker {worker}: {quote(said)}). {remedy}."
