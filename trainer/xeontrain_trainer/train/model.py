"""The model with its new head, its optimizer and its learning-rate schedule."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from .config import Hyperparameters
from .errors import BadConfigError
from .tasks.task import Task


def load_model(
    folder: str, *, task: Task, labels: Sequence[str], dropout: float | None, seed: int
) -> nn.Module:
    """The model in `folder` with the task's head, in float32, ready to train.

    A head that is missing or of another size is made new from `seed`, the same in all ranks.
    `dropout` overrides every dropout probability of the model.
    Raises BadConfigError where the folder holds no such model.
    """
    import transformers
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.manual_seed(seed)
    try:
        config = transformers.AutoConfig.from_pretrained(folder, **task.model_options(labels))
        if dropout is not None:
            _set_dropout(config, dropout)
        model = getattr(transformers, task.auto_model).from_pretrained(
            folder, config=config, dtype=torch.float32, ignore_mismatched_sizes=True
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise BadConfigError(
            "spec.training.model",
            cause=f"it cannot be loaded for {task.config.task}: {' '.join(str(error).split())[:300]}",
            remedy=f"Name a model that {task.auto_model} of transformers loads",
        ) from error
    return task.ready(model.train())


def _set_dropout(config: Any, dropout: float) -> None:
    names = list(_dropouts(config))
    if dropout and not names:
        raise BadConfigError(
            "spec.training.hyperparameters.dropout",
            cause=f"a {config.model_type} has no dropout",
            remedy="Leave the field out",
        )
    for name in names:
        setattr(config, name, dropout)


def _dropouts(config: Any) -> Iterator[str]:
    """The names of the config's dropout probabilities; unset ones fall back to others, so they count."""
    for name, value in config.to_dict().items():
        if "drop" in name and (
            value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
        ):
            yield name


def freeze_unused(model: nn.Module, *, backward: Callable[[], None]) -> list[str]:
    """Freeze the parameters that get no gradient from `backward`, and return their names.

    A single process would never change them either; DDP would wait for their gradients for ever.
    """
    model.zero_grad(set_to_none=True)
    backward()
    unused = [
        (name, tensor)
        for name, tensor in model.named_parameters()
        if tensor.requires_grad and tensor.grad is None
    ]
    for _, tensor in unused:
        tensor.requires_grad_(False)
    model.zero_grad(set_to_none=True)
    return [name for name, _ in unused]


@contextlib.contextmanager
def kept_buffers(model: nn.Module) -> Iterator[None]:
    """Leave the model's buffers (such as a norm's running means) as they were before the block."""
    before = {name: tensor.clone() for name, tensor in model.named_buffers()}
    yield
    with torch.no_grad():
        for name, tensor in model.named_buffers():
            tensor.copy_(before[name])


def make_optimizer(model: nn.Module, *, parameters: Hyperparameters) -> torch.optim.Optimizer:
    """AdamW, fused where this build of torch has that; no weight decay on biases and norms (vectors)."""
    trained = [tensor for tensor in model.parameters() if tensor.requires_grad]
    groups = [
        {
            "params": [tensor for tensor in trained if tensor.ndim >= 2],
            "weight_decay": parameters.weight_decay,
        },
        {"params": [tensor for tensor in trained if tensor.ndim < 2], "weight_decay": 0.0},
    ]
    try:
        return torch.optim.AdamW(groups, lr=parameters.learning_rate, fused=True)
    except RuntimeError:
        return torch.optim.AdamW(groups, lr=parameters.learning_rate)


def make_schedule(
    optimizer: torch.optim.Optimizer, *, parameters: Hyperparameters, total_steps: int
) -> torch.optim.lr_scheduler.LambdaLR:
    """The learning rate over `total_steps` optimizer steps, with its warm-up."""
    from transformers import get_scheduler

    name = "constant_with_warmup" if parameters.schedule == "constant" else parameters.schedule
    warmup_steps = round(parameters.warmup_ratio * total_steps)
    return get_scheduler(name, optimizer, num_warmup_steps=warmup_steps, num_training_steps=total_steps)
