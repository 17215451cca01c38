"""What ranks do in the tests: functions that are imported by name in each rank's process."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Step:
    """A step's loss and every parameter's gradient by name, as a rank has them before the optimizer."""

    loss: float
    gradients: dict[str, NDArray[np.float32]]


@contextlib.contextmanager
def _group() -> Iterator[Any]:
    from xeontrain_trainer.train import distributed
    from xeontrain_trainer.train.environment import Environment

    environment = Environment.from_environ(os.environ)
    store = distributed.open_store(environment)
    with distributed.process_group(store, environment=environment, backend="gloo"):
        yield environment


def steps(prepared: Any, *, rows: Sequence[Sequence[int]], accumulations: Sequence[int]) -> list[Step]:
    """The loss and gradients of each of `rows` as a global batch, for each number of accumulation steps."""
    from xeontrain_trainer.train.config import Columns, DataFiles, Dataset, Hyperparameters, TrainingConfig
    from xeontrain_trainer.train.distributed import total
    from xeontrain_trainer.train.loop import accumulate_gradients
    from xeontrain_trainer.train.sampler import GlobalBatch
    from xeontrain_trainer.train.setup import build_training

    done = []
    with _group() as environment:
        for pieces in accumulations:
            config = TrainingConfig(
                task="text-classification",
                model=prepared.model_folder,
                dataset=Dataset(files=DataFiles(), columns=Columns()),
                hyperparameters=Hyperparameters(accumulation_steps=pieces, dropout=0.0),
                precision="FP32",
            )
            training = build_training(config, prepared=prepared, environment=environment, backend="Gloo")
            for batch_rows in rows:
                training.wrapped.zero_grad(set_to_none=True)
                batch = GlobalBatch(epoch=0, number=0, rows=tuple(batch_rows))
                (loss_sum,) = total([accumulate_gradients(training, batch)])
                gradients = {
                    name: tensor.grad.numpy().copy() for name, tensor in training.model.named_parameters()
                }
                done.append(Step(loss=loss_sum / len(batch_rows), gradients=gradients))
    return done


def plain_steps(prepared: Any, *, rows: Sequence[Sequence[int]]) -> list[Step]:
    """The reference: the same by transformers' own loss, the mean over a batch, without DDP."""
    from xeontrain_trainer.train.batches import Tokens
    from xeontrain_trainer.train.data import load_tokenizer, load_tokens
    from xeontrain_trainer.train.model import load_model

    tokenizer = load_tokenizer(prepared.model_folder)
    tokens = Tokens.of(load_tokens(prepared, "train"), tokenizer=tokenizer)
    model = load_model(prepared.model_folder, labels=prepared.labels, dropout=0.0, seed=42)
    done = []
    for batch_rows in rows:
        model.zero_grad(set_to_none=True)
        loss = model(**tokens.batch(list(batch_rows))).loss
        loss.backward()
        done.append(Step(loss=float(loss.detach()), gradients=_gradients(model)))
    return done


def _gradients(model: Any) -> dict[str, NDArray[np.float32]]:
    return {
        name: tensor.grad.numpy().copy()
        for name, tensor in model.named_parameters()
        if tensor.grad is not None
    }


def train() -> int:
    """A rank as the launcher runs it; its exit code."""
    from xeontrain_trainer.train.__main__ import main

    return main()


def agree_precision(seconds: Sequence[tuple[float, float]], *, native: Sequence[bool]) -> str:
    """The precision that this rank decides on, where rank i takes seconds[i] for a step in (FP32, BF16)."""
    from xeontrain_trainer.train.precision import Precision, decide

    with _group() as environment:
        fp32, bf16 = seconds[environment.rank]

        def measured(precision: Precision) -> float:
            return fp32 if precision.name == "FP32" else bf16

        return decide("Auto", native=native[environment.rank], seconds=measured).name


def thread_affinities(cpu: int) -> dict[str, set[int]]:
    """The CPUs of the main thread and of the threads that the group made, which was made on `cpu`."""
    from xeontrain_trainer.train import distributed
    from xeontrain_trainer.train.environment import Environment

    environment = Environment.from_environ(os.environ)
    store = distributed.open_store(environment)
    before = _threads()
    with distributed.process_group(store, environment=environment, backend="gloo", comm_cpus=[cpu]):
        made = _threads() - before
        cpus = {name: os.sched_getaffinity(thread) for name, thread in made if "gloo" in name}
        return {**cpus, "main": os.sched_getaffinity(threading.get_native_id())}


def _threads() -> set[tuple[str, int]]:
    tasks = Path("/proc/self/task").iterdir()
    return {((task / "comm").read_text().strip(), int(task.name)) for task in tasks}


def evaluate(prepared: Any) -> dict[str, float]:
    """The evaluation's scores as this rank gets them, on the untrained model with dropout in its config."""
    from xeontrain_trainer.train.batches import Tokens
    from xeontrain_trainer.train.data import load_tokenizer, load_tokens
    from xeontrain_trainer.train.evaluate import evaluate as evaluate_rows
    from xeontrain_trainer.train.model import load_model
    from xeontrain_trainer.train.precision import FP32

    tokenizer = load_tokenizer(prepared.model_folder)
    tokens = Tokens.of(load_tokens(prepared, "eval"), tokenizer=tokenizer)
    model = load_model(prepared.model_folder, labels=prepared.labels, dropout=0.5, seed=1)
    with _group() as environment:
        scores = evaluate_rows(model, tokens, precision=FP32, environment=environment)
    assert model.training
    return scores
