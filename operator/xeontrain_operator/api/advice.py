"""What is allowed and may still surprise: said by `xeontrain validate` before a cluster says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xeontrain_operator.api.problem import Problem
from xeontrain_operator.api.v1alpha1 import XeonTrainJobSpec, memory_bytes

# The columns that each task of the trainer reads, by the names of their fields.
COLUMNS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "text-classification": ("text", "textPair", "label"),
    "question-answering": ("question", "context", "answers"),
    "token-classification": ("tokens", "tags"),
    "image-classification": ("image", "label"),
    "causal-language-modeling": ("text",),
}
# Less than the launcher alone takes: such a size lacks its unit.
_LEAST_MEMORY_BYTES: Final = 32 * 1024**2


def advice(spec: XeonTrainJobSpec) -> list[Problem]:
    """Return a sentence for each field of a valid job that a person should think about again."""
    found: list[Problem] = []
    memory = memory_bytes(spec.resources.memory)
    if memory < _LEAST_MEMORY_BYTES:
        found.append(
            Problem(
                "spec.resources.memory", f"is {memory} bytes, too little to start; write a unit, such as Gi"
            )
        )
    found += unread_columns(spec)
    uneven = uneven_batch(spec)
    if uneven is not None:
        found.append(Problem("spec.training.hyperparameters.batchSize", uneven))
    backend = backend_of_script(spec)
    if backend is not None:
        found.append(Problem("spec.distributed.backend", backend))
    if spec.training is not None and spec.storage is None:
        lost = (
            "is not set, so the model is lost with the pods: write storage.size or storage.claim to keep it"
        )
        found.append(Problem("spec.storage", lost))
    return found


def unread_columns(spec: XeonTrainJobSpec) -> list[Problem]:
    """Say so for each column that the job names and its task does not read."""
    if spec.training is None:
        return []
    task, columns = spec.training.task, spec.training.dataset.columns
    reads = COLUMNS_OF[task]
    return [
        Problem(
            f"spec.training.dataset.columns.{field.alias or name}",
            f"is not read by {task}, which reads {', '.join(reads)}; leave it out",
        )
        for name, field in type(columns).model_fields.items()
        if getattr(columns, name) != field.default and (field.alias or name) not in reads
    ]


def uneven_batch(spec: XeonTrainJobSpec) -> str | None:
    """Say so where the ranks cannot share a batch evenly; None where they can, or their number is Auto."""
    if spec.training is None or not isinstance(spec.ranks_per_worker, int):
        return None
    ranks, batch = spec.workers * spec.ranks_per_worker, spec.training.hyperparameters.batch_size
    if batch % ranks == 0:
        return None
    return (
        f"{batch} does not divide by {ranks} ranks, so some take one sample more while the others wait; "
        "the loss stays exact"
    )


def backend_of_script(spec: XeonTrainJobSpec) -> str | None:
    """Say so where a backend is named for a script, which chooses its own."""
    if spec.command is None or spec.distributed.backend == "Auto":
        return None
    return (
        f"is {spec.distributed.backend}, but a command chooses its backend itself, in init_process_group; "
        "the launcher prepares gloo's and oneCCL's environment in any case"
    )
