"""Intel Extension for PyTorch: used where the job insists on it, or where a probe finds it faster.

Its last release is 2.8, for torch 2.8; on the cores at hand stock PyTorch was measured faster.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
import types
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import nn

from . import distributed
from .errors import BadConfigError
from .torch_builds import minor, version_of, why_not_loaded
from .trial import how_it_fails

DISTRIBUTION = "intel_extension_for_pytorch"
# It takes seconds to import, more where many ranks do so at once.
_IMPORT_SECONDS = 180.0
_MASKS = "transformers.modeling_attn_mask_utils"
_MASK_NAMES = ("_prepare_4d_causal_attention_mask", "_prepare_4d_attention_mask")


@dataclass(frozen=True)
class Extension:
    """Whether the extension is used in this run, and why, for people. Plain values, as a checkpoint keeps."""

    used: bool
    reason: str


def load_in_all_ranks(*, first_of_worker: bool) -> str | None:
    """Import the extension in all ranks; None if that worked, else why it cannot be used. A collective.

    Versions are compared first, and the first rank of each worker has a child process import it before
    anybody does: one that was built for another torch ends the process.
    """
    problem = misfit()
    if problem is None and first_of_worker:
        problem = _does_not_load(how_it_fails(_import, timeout_seconds=_IMPORT_SECONDS))
    return _one_for_all(problem) or _one_for_all(_does_not_load(why_not_loaded(_import)))


def _does_not_load(failure: str | None) -> str | None:
    return f"it does not load: {failure}" if failure else None


def insist(problem: str | None) -> None:
    """Raise BadConfigError where a job that wants the extension Enabled cannot have it."""
    if problem:
        raise BadConfigError(
            "spec.training.ipex",
            cause=f"it is Enabled, but Intel Extension for PyTorch cannot be used: {problem}",
            remedy="Write Auto or Disabled, or use the trainer image that was built with VARIANT=ipex",
        )


def _one_for_all(problem: str | None) -> str | None:
    """The problem of the first rank that has one, known to all ranks."""
    problems = distributed.gather(problem)
    rank = next((rank for rank, found in enumerate(problems) if found), None)
    if rank is None:
        return None
    return str(problems[rank]) if all(problems) else f"{problems[rank]} (rank {rank})"


def misfit() -> str | None:
    """Why the installed versions do not go together; None where they do."""
    version, torch_version = version_of(DISTRIBUTION), importlib.metadata.version("torch")
    if version is None:
        return "it is not installed in this image"
    if minor(version) != minor(torch_version):
        return f"version {version} works with torch {minor(version)} alone, this image has {torch_version}"
    return None


def _import() -> Any:
    _stand_in_for_masks()
    return importlib.import_module(DISTRIBUTION)


def _stand_in_for_masks() -> None:
    """Give transformers the module that 5.24 removed and that the extension imports for its language models.

    Without it the extension leaves out a block of imports that it goes on to use (NameError).
    """
    if _MASKS in sys.modules:
        return
    try:
        if importlib.util.find_spec(_MASKS) is not None:
            return
    except ModuleNotFoundError:
        return
    module = types.ModuleType(_MASKS)
    for name in _MASK_NAMES:
        setattr(module, name, _removed)
    sys.modules[_MASKS] = module


def _removed(*_: object, **__: object) -> NoReturn:
    raise NotImplementedError(f"{_MASKS} is no longer in transformers")


def optimize(
    model: nn.Module, optimizer: torch.optim.Optimizer, *, dtype: torch.dtype
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """The pair as the extension rebuilds it, in place, for training. To be called once it is loaded."""
    extension: Any = sys.modules[DISTRIBUTION]
    # Prepacked weights could not be saved as other programs read them, and in BF16 need AVX-512.
    optimized, rebuilt = extension.optimize(
        model.train(), optimizer=optimizer, dtype=dtype, inplace=True, weights_prepack=False
    )
    return optimized, rebuilt
