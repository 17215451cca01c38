"""What outlives the launcher: the verdict's document, its marker, the result, the round and start numbers.

Every file is written to a temporary name, fsynced, renamed, and its folder fsynced; readers take a file that is
missing or is not JSON as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional


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
    raise NotImplementedError


def fit_document(document: Mapping[str, Any], *, max_bytes: int) -> str:
    """The document as JSON of at most `max_bytes` bytes of UTF-8, always valid: metrics are dropped first, then
    texts are cut. Raises ValueError where even the bare document is larger."""
    raise NotImplementedError


def write_termination(path: str, document: Mapping[str, Any], *, max_bytes: int) -> None:
    """Writes the fitted document in place (the kubelet mounts the file itself, so no rename)."""
    raise NotImplementedError


def read_metrics(path: str) -> FinalMetrics:
    """Rank 0's metrics file: `{"metrics": {...}, "model": "..."}` or a flat object of numbers; empty if unusable."""
    raise NotImplementedError


class StateDir:
    """The emptyDir: marker, start number, highest round known."""

    def __init__(self, path: str) -> None:
        raise NotImplementedError

    def next_start(self) -> int:
        """This launcher's start number in the pod: 1, 2, ...; written before it is returned."""
        raise NotImplementedError

    def read_marker(self, *, job_uid: str) -> Optional[dict[str, Any]]:
        """The verdict's document, None where there is none of this job."""
        raise NotImplementedError

    def write_marker(self, document: Mapping[str, Any]) -> None:
        """Keeps the verdict for the next start of this container."""
        raise NotImplementedError

    def read_round(self) -> int:
        """The highest round this pod has known; 0 before the first."""
        raise NotImplementedError

    def write_round(self, number: int) -> None:
        """Remembers a round number; a lower one than known is ignored."""
        raise NotImplementedError


class JobDir:
    """The job's own folder in `storage`. With path None (no storage) reads are empty and writes do nothing."""

    def __init__(self, path: Optional[str]) -> None:
        raise NotImplementedError

    def read_result(self, *, job_uid: str) -> Optional[dict[str, Any]]:
        """The result of an earlier pod of this very job, None where there is none."""
        raise NotImplementedError

    def write_result(self, document: Mapping[str, Any]) -> None:
        """`result.json`, once the job has succeeded."""
        raise NotImplementedError

    def read_round(self) -> int:
        """The newest round ordered by any coordinator of this job; 0 before the first."""
        raise NotImplementedError

    def write_round(self, number: int) -> None:
        """`round.json`, before the order for a round is given: rank 0 refuses to save where a newer one stands."""
        raise NotImplementedError

    def model_path(self) -> Optional[str]:
        """The folder of the final model, None where there is none."""
        raise NotImplementedError
