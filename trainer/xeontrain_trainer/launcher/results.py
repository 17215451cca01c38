"""What outlives the launcher: the verdict's document, its marker, the result, the round and start numbers.

Readers take a file that is missing, is not JSON or is another job's as absent. Writers raise OSError.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from .. import contract
from ..gang.verdict import read_verdict
from ..gang.wire import MAX_ROUND, Fields, MessageError
from .files import read_json, read_number, write_json, write_whole

SUCCEEDED = "Succeeded"
FAILED = "Failed"
CUT_MARK = "..."
# Within what the gang takes in a verdict (gang/verdict.py, gang/wire.py): one that is written can be told.
MAX_METRICS = 256
MAX_METRIC = 1e300


@dataclass(frozen=True)
class FinalMetrics:
    """What rank 0 left: numbers by name, and where the model is (None: not said)."""

    metrics: Mapping[str, float]
    model: Optional[str]


def result_document(
    *,
    job_uid: str,
    worker: int,
    round_number: int,
    outcome: str,
    metrics: Mapping[str, float],
    model: Optional[str],
    failures: int,
    failure: Optional[Mapping[str, Any]],
) -> dict[str, Any]:
    """The contract's result document. Raises ValueError on an unknown outcome."""
    if outcome not in (SUCCEEDED, FAILED):
        raise ValueError(f"outcome {outcome!r} is neither {SUCCEEDED} nor {FAILED}")
    return {
        "contract": contract.CONTRACT_VERSION,
        "jobUid": job_uid,
        "worker": worker,
        "round": round_number,
        "outcome": outcome,
        "metrics": _finite(metrics),
        "model": model,
        "failures": failures,
        "failure": None if failure is None else dict(failure),
    }


def fit_document(document: Mapping[str, Any], *, max_bytes: int) -> str:
    """The document as JSON of at most `max_bytes` bytes of UTF-8, always valid: metrics are dropped first,
    then the failure's message is cut, then the model's path left out.

    The kubelet cuts what is longer in the middle of a word. Raises ValueError where even the bare document is
    larger.
    """
    fitted = copy.deepcopy(dict(document))
    if _size(fitted) > max_bytes:
        fitted["metrics"] = {}
    if _size(fitted) > max_bytes and isinstance(fitted.get("failure"), dict):
        fitted["failure"] = _cut_message(fitted, max_bytes=max_bytes)
    if _size(fitted) > max_bytes:
        fitted["model"] = None
    if _size(fitted) > max_bytes:
        raise ValueError(f"the result document needs {_size(fitted)} bytes, {max_bytes} are allowed")
    return _encode(fitted).decode()


def write_termination(path: str, document: Mapping[str, Any], *, max_bytes: int) -> None:
    """Writes the fitted document over what is there (the kubelet mounts the file itself, so no rename)."""
    data = fit_document(document, max_bytes=max_bytes).encode()
    with open(path, "wb") as file:
        file.write(data)


def write_sentence(path: Optional[str], text: str) -> None:
    """Leaves why a container ends without a verdict, where the kubelet looks for it; best effort."""
    if path is not None:
        with contextlib.suppress(OSError), open(path, "wb") as file:
            file.write(text.encode("utf-8", "replace")[: contract.TERMINATION_BYTES])


def read_metrics(path: str) -> FinalMetrics:
    """Rank 0's metrics file: `{"metrics": {...}, "model": "..."}` or a flat object of numbers; empty if
    unusable."""
    document = read_json(path) or {}
    inner = document.get("metrics")
    model = document.get("model")
    return FinalMetrics(
        metrics=_finite(inner if isinstance(inner, dict) else document),
        model=model if isinstance(model, str) and model else None,
    )


class StateDir:
    """The emptyDir: marker, start number, highest round known."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._marker = os.path.join(path, "marker.json")
        self._starts = os.path.join(path, "starts")
        self._round = os.path.join(path, "round")

    def next_start(self, *, parked: bool = False) -> int:
        """This launcher's start number in the pod: 1, 2, ...; written before it is returned. One that is
        parked goes on without, where it cannot be written: it orders nothing and obeys nothing."""
        number = _round(read_number(self._starts)) + 1
        with contextlib.suppress(*((OSError,) if parked else ())):
            write_whole(self._starts, f"{number}\n".encode())
        return number

    def read_marker(self, *, job_uid: str) -> Optional[dict[str, Any]]:
        """The verdict's document, None where there is none of this job."""
        return _of_job(read_json(self._marker), job_uid=job_uid)

    def write_marker(self, document: Mapping[str, Any]) -> None:
        """Keeps the verdict for the next start of this container."""
        write_json(self._marker, document)

    def read_round(self) -> int:
        """The highest round this pod has known; 0 before the first."""
        return _round(read_number(self._round))

    def write_round(self, number: int) -> None:
        """Remembers a round number; one not above the known is ignored."""
        if number > self.read_round():
            write_whole(self._round, f"{number}\n".encode())


class JobDir:
    """The job's own folder in `storage`. With path None (no storage) reads are empty and writes do
    nothing."""

    def __init__(self, path: Optional[str]) -> None:
        self.path = path

    def read_result(self, *, job_uid: str) -> Optional[dict[str, Any]]:
        """The result of an earlier pod of this very job, None where there is none."""
        return None if self.path is None else _of_job(read_json(self._file("result.json")), job_uid=job_uid)

    def write_result(self, document: Mapping[str, Any]) -> None:
        """`result.json`, once the job has succeeded."""
        if self.path is not None:
            write_json(self._file("result.json"), document)

    def read_round(self) -> int:
        """The newest round ordered by any coordinator of this job; 0 before the first."""
        document = None if self.path is None else read_json(self._file("round.json"))
        number = (document or {}).get("round")
        return _round(number) if isinstance(number, int) and not isinstance(number, bool) else 0

    def write_round(self, number: int) -> None:
        """`round.json`, before the order for a round is given: rank 0 refuses to save where a newer one
        stands. One not above the known is ignored."""
        if self.path is not None and number > self.read_round():
            write_json(self._file("round.json"), {"contract": contract.CONTRACT_VERSION, "round": number})

    def model_path(self) -> Optional[str]:
        """The folder of the final model, None where there is none."""
        if self.path is None:
            return None
        folder = self._file("model")
        try:
            return folder if os.listdir(folder) else None
        except OSError:
            return None

    def _file(self, name: str) -> str:
        return os.path.join(self.path or "", name)


def _round(number: int) -> int:
    """The number, 0 where it is none that a round can have: the gang would refuse to hear of the next."""
    return number if 0 < number < MAX_ROUND else 0


def _of_job(document: Optional[dict[str, Any]], *, job_uid: str) -> Optional[dict[str, Any]]:
    """The document if it is a verdict of this job that the gang can be told: a folder may hold a stranger's,
    or what a program has put there."""
    if document is None or len(_encode(document)) > contract.TERMINATION_BYTES:
        return None
    try:
        return read_verdict(Fields(document, name="verdict"), job_uid=job_uid)
    except MessageError:
        return None


def _finite(values: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers among the values, the first MAX_METRICS: NaN and infinity are not JSON, and an
    integer beyond every float is no number to those who read the document."""
    finite = [(str(name), value) for name, value in values.items() if _is_finite(value)]
    return dict(finite[:MAX_METRICS])


def _is_finite(value: Any) -> bool:
    """Comparison, unlike math.isfinite, takes an integer of any size; it is false for NaN."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and abs(value) < MAX_METRIC


def _cut_message(document: Mapping[str, Any], *, max_bytes: int) -> dict[str, Any]:
    """The failure with as much of its message as fits, by bisection: escapes make lengths uneven."""
    failure: dict[str, Any] = dict(document["failure"])
    message = str(failure.get("message", ""))
    low, high = 0, len(message)
    while low < high:
        middle = (low + high + 1) // 2
        failure["message"] = message[:middle] + CUT_MARK
        if _size({**document, "failure": failure}) <= max_bytes:
            low = middle
        else:
            high = middle - 1
    failure["message"] = message[:low] + CUT_MARK if low else ""
    return failure


def _size(document: Mapping[str, Any]) -> int:
    return len(_encode(document))


def _encode(document: Mapping[str, Any]) -> bytes:
    """Compact JSON; lone surrogates (undecodable bytes of a program's output) become question marks."""
    text = json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", errors="replace")
