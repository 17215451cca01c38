"""Intel Extension for PyTorch, used only where the job asks for it: stock PyTorch was measured faster."""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import Any

import torch
from torch import nn


def optimize(
    model: nn.Module, optimizer: torch.optim.Optimizer, *, dtype: torch.dtype
) -> tuple[nn.Module, torch.optim.Optimizer, str | None]:
    """The pair as the extension rebuilds it, and None; or the pair as it is, and why that is not used.

    Versions are compared before the import, because one built for another torch ends the process.
    """
    problem = _problem()
    if problem:
        return model, optimizer, problem
    extension: Any = importlib.import_module("intel_extension_for_pytorch")
    # Prepacked weights are faster on some cores, but could not be saved as other programs read them.
    optimized, rebuilt = extension.optimize(
        model.train(), optimizer=optimizer, dtype=dtype, inplace=True, weights_prepack=False
    )
    return optimized, rebuilt, None


def _problem() -> str | None:
    try:
        version = importlib.metadata.version("intel_extension_for_pytorch")
    except importlib.metadata.PackageNotFoundError:
        return "it is not installed in this image"
    torch_version = importlib.metadata.version("torch")
    if version.split(".")[:2] != torch_version.split(".")[:2]:
        return f"version {version} was built for the torch of that version, this image has {torch_version}"
    return None
