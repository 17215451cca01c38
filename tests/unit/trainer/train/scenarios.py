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


def steps(
    training: dict[str, Any], prepared: Any, *, rows: Sequence[Sequence[int]], accumulations: Sequence[int]
) -> list[Step]:
    """The loss and gradients of each of `rows` as a global batch, for each number of accumulation steps.

    `training` is the job's block, of which `prepared` holds the samples.
    """
    from xeontrain_trainer.train.distributed import total
    from xeontrain_trainer.train.loop import accumulate_gradients
    from xeontrain_trainer.train.sampler import GlobalBatch

    done = []
    with _group() as environment:
        for pieces in accumulations:
            built = _built(training, prepared, environment, dropout=0, accumulationSteps=pieces)
            for batch_rows in rows:
                built.wrapped.zero_grad(set_to_none=True)
                batch = GlobalBatch(epoch=0, number=0, rows=tuple(batch_rows))
                (loss_sum,) = total([accumulate_gradients(built, batch)])
                loss = loss_sum / built.samples.count_items(batch_rows)
                done.append(Step(loss=loss, gradients=_gradients(built.model)))
    return done


def _built(training: dict[str, Any], prepared: Any, environment: Any, **hyperparameters: Any) -> Any:
    from xeontrain_trainer.train.config import parse_training
    from xeontrain_trainer.train.setup import build_training
    from xeontrain_trainer.train.tasks import task_of

    block = {**training, "hyperparameters": {**training["hyperparameters"], **hyperparameters}}
    config = parse_training(block)
    return build_training(
        config, task=task_of(config), prepared=prepared, environment=environment, backend="Gloo"
    )


def plain_steps(training: dict[str, Any], prepared: Any, *, rows: Sequence[Sequence[int]]) -> list[Step]:
    """The reference: the same by transformers' own loss, the mean over a batch, without DDP."""
    from xeontrain_trainer.train.config import parse_training
    from xeontrain_trainer.train.data import load_samples
    from xeontrain_trainer.train.model import load_model
    from xeontrain_trainer.train.samples import Samples
    from xeontrain_trainer.train.tasks import task_of

    task = task_of(parse_training(training))
    processor = task.load_processor(prepared.model_folder)
    samples = Samples.of(load_samples(prepared, "train"), task=task, processor=processor)
    model = load_model(prepared.model_folder, task=task, labels=prepared.labels, dropout=0.0, seed=42)
    done = []
    for batch_rows in rows:
        model.zero_grad(set_to_none=True)
        loss = model(**samples.batch(list(batch_rows))).loss
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
    """The CPUs of the main thread, of the threads that store and group made, which were made on `cpu`, and of
    the OpenMP threads that came after them."""
    import torch
    from xeontrain_trainer.train import distributed
    from xeontrain_trainer.train.environment import Environment

    environment = Environment.from_environ(os.environ)
    torch.set_num_threads(3)
    before = _threads()
    store = distributed.open_store(environment, comm_cpus=[cpu])
    with distributed.process_group(store, environment=environment, backend="gloo", comm_cpus=[cpu]):
        made = _threads() - before
        torch.ones(1 << 20).exp()
        pool = _threads() - before - made
        cpus = {f"{name}/{number}": thread for number, (name, thread) in enumerate(sorted(made))}
        cpus |= {f"openmp/{number}": thread for number, (_, thread) in enumerate(sorted(pool))}
        cpus["main"] = threading.get_native_id()
        return {name: os.sched_getaffinity(thread) for name, thread in cpus.items()}


def _threads() -> set[tuple[str, int]]:
    tasks = Path("/proc/self/task").iterdir()
    return {((task / "comm").read_text().strip(), int(task.name)) for task in tasks}


def evaluate(training: dict[str, Any], prepared: Any) -> dict[str, float]:
    """The evaluation's scores as this rank gets them, on the untrained model with dropout."""
    from xeontrain_trainer.train.evaluate import evaluate as evaluate_rows
    from xeontrain_trainer.train.setup import evaluation_samples

    with _group() as environment:
        built = _built(training, prepared, environment, dropout=0.5)
        samples = evaluation_samples(prepared, task=built.task, processor=built.processor)
        scores = evaluate_rows(built, samples, prepared=prepared)
    assert built.model.training
    return scores
