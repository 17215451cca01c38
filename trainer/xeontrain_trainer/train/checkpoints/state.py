"""All that a training's next step depends on, as files, and back into the ranks.

Rank 0 alone writes and reads; the other ranks get weights and moments through the process group.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

MODEL, OPTIMIZER, RANDOM = "model.safetensors", "optimizer.safetensors", "random.json"


def write_state(folder: str, *, model: nn.Module, optimizer: torch.optim.Optimizer, randoms: Any) -> None:
    """Write weights, the optimizer's moments, and each rank's random state (`random_state` of it)."""
    weights = {name: tensor.contiguous() for name, tensor in _weights(model)}
    save_file(weights, os.path.join(folder, MODEL))
    save_file(_moments(optimizer), os.path.join(folder, OPTIMIZER))
    with open(os.path.join(folder, RANDOM), "w", encoding="utf-8") as file:
        json.dump(randoms, file)


def load_weights(folder: str | None, *, model: nn.Module) -> None:
    """Put the checkpoint's weights into every rank's model. A collective; `folder` is None but in rank 0.

    Weights are named as in the model, and a tensor that two names share is there once.
    """
    saved = load_file(os.path.join(folder, MODEL)) if folder else None
    with torch.no_grad():
        for name, tensor in _weights(model):
            if saved:
                tensor.copy_(saved[name])
            dist.broadcast(tensor, src=0)


def load_moments(folder: str | None, *, optimizer: torch.optim.Optimizer) -> None:
    """Put the optimizer's moments into every rank's optimizer. A collective, as `load_weights`."""
    saved = load_file(os.path.join(folder, OPTIMIZER)) if folder else {}
    shapes: list[Any] = [{key: (tensor.shape, tensor.dtype) for key, tensor in saved.items()}]
    dist.broadcast_object_list(shapes, src=0)
    parameters = [tensor for group in optimizer.param_groups for tensor in group["params"]]
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, (shape, dtype) in shapes[0].items():
        number, _, name = key.partition(".")
        tensor = _like(parameters[int(number)], shape=shape, dtype=dtype)
        if folder:
            tensor.copy_(saved[key])
        dist.broadcast(tensor, src=0)
        state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _like(parameter: torch.Tensor, *, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """Room for a moment, laid out in memory as its parameter: the fused optimizer walks both side by side."""
    if shape == parameter.shape:
        return torch.empty_like(parameter, dtype=dtype, requires_grad=False)
    return torch.empty(shape, dtype=dtype)


def load_randoms(folder: str | None) -> None:
    """Each rank's random state, where the checkpoint has as many as there are ranks. A collective."""
    states: list[Any] = [None]
    if folder:
        with open(os.path.join(folder, RANDOM), encoding="utf-8") as file:
            states = [json.load(file)]
    dist.broadcast_object_list(states, src=0)
    set_random_state(states[0][dist.get_rank()])


def random_state() -> dict[str, Any]:
    """The state of this process' generators, as JSON has it."""
    kind, keys, position, has_gauss, gauss = np.random.get_state()
    version, numbers, following = random.getstate()
    return {
        "torch": base64.b64encode(torch.get_rng_state().numpy().tobytes()).decode(),
        "numpy": [kind, np.asarray(keys).tolist(), int(position), int(has_gauss), float(gauss)],
        "python": [version, list(numbers), following],
    }


def set_random_state(state: dict[str, Any]) -> None:
    """The inverse of `random_state`."""
    raw = np.frombuffer(base64.b64decode(state["torch"]), dtype=np.uint8).copy()
    torch.set_rng_state(torch.from_numpy(raw))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, np.asarray(keys, dtype=np.uint32), *rest))
    version, numbers, following = state["python"]
    random.setstate((version, tuple(numbers), following))


def fingerprint(model: nn.Module) -> str:
    """The same for models whose weights have the same names and shapes."""
    shapes = [(name, list(tensor.shape)) for name, tensor in _weights(model)]
    return hashlib.sha256(json.dumps(shapes).encode()).hexdigest()[:24]


def difference(folder: str, *, model: nn.Module) -> str:
    """The first weight in which a checkpoint and the model differ, for people; empty where none is found."""
    with safe_open(os.path.join(folder, MODEL), "pt") as saved:
        there = {name: list(saved.get_slice(name).get_shape()) for name in saved.keys()}  # noqa: SIM118
    here = {name: list(tensor.shape) for name, tensor in _weights(model)}
    for name in sorted({*here, *there}):
        if here.get(name) != there.get(name):
            return f"{name} is {there.get(name, 'missing')} there and {here.get(name, 'missing')} here"
    return ""


def _weights(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters, and the buffers that are part of the model (such as a norm's running means), each once."""
    for name, parameter in model.named_parameters():
        yield name, parameter.detach()
    kept = model.state_dict(keep_vars=True)
    for name, buffer in model.named_buffers():
        if name in kept:
            yield name, buffer


def _moments(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    return {
        f"{number}.{name}": value.contiguous()
        for number, moments in optimizer.state_dict()["state"].items()
        for name, value in moments.items()
    }
