"""What ranks do in the tests: functions that are imported by name in each rank's process."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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


@dataclass(frozen=True)
class Job:
    """A job's training block, and the samples that were made for it."""

    training: dict[str, Any]
    prepared: Any


@dataclass(frozen=True)
class Seen:
    """What a rank sees of a job.

    A step for each batch and number of pieces; the evaluation; epoch and samples of each step of a training;
    the evaluation after it.
    """

    steps: list[Step]
    evaluation: dict[str, float]
    trained_on: list[tuple[int, list[int]]]
    learned: dict[str, float]


def batches(num_samples: int) -> list[Sequence[int]]:
    """Global batches of at least 16 samples: a full one; one that no number of ranks divides, with the last
    sample; one smaller than four ranks; a single sample."""
    return [range(16), range(num_samples - 13, num_samples), range(3, 6), [num_samples - 1]]


def watch(jobs: Mapping[str, Job], *, accumulations: Sequence[int], epochs: int) -> dict[str, Seen]:
    """Each job in this rank, one after another: losses and gradients of batches, evaluation, a training.

    Each of the batches is computed without dropout for each number of accumulation steps. The training is one
    of `epochs` with dropout.
    """
    with _group() as environment:
        return {
            name: _seen(job, environment, accumulations=accumulations, epochs=epochs)
            for name, job in jobs.items()
        }


def _seen(job: Job, environment: Any, *, accumulations: Sequence[int], epochs: int) -> Seen:
    steps = [step for pieces in accumulations for step in _steps(job, environment, accumulation_steps=pieces)]
    evaluation = _evaluation(job, environment)
    trained_on, learned = _training(job, environment, epochs=epochs)
    return Seen(steps=steps, evaluation=evaluation, trained_on=trained_on, learned=learned)


def _steps(job: Job, environment: Any, *, accumulation_steps: int) -> list[Step]:
    from xeontrain_trainer.train.distributed import total
    from xeontrain_trainer.train.loop import accumulate_gradients
    from xeontrain_trainer.train.sampler import GlobalBatch

    built = _built(job, environment, dropout=0, accumulationSteps=accumulation_steps)
    done = []
    for batch_rows in batches(len(built.samples.lengths)):
        built.wrapped.zero_grad(set_to_none=True)
        batch = GlobalBatch(epoch=0, number=0, rows=tuple(batch_rows))
        (loss_sum,) = total([accumulate_gradients(built, batch)])
        loss = loss_sum / built.samples.count_items(batch_rows)
        done.append(Step(loss=loss, gradients=_gradients(built.model)))
    return done


def _evaluation(job: Job, environment: Any) -> dict[str, float]:
    """The scores of the untrained model with dropout, which must not work here."""
    return _evaluated(job, _built(job, environment, **_dropout(job, 0.5)))


def _evaluated(job: Job, built: Any) -> dict[str, float]:
    from xeontrain_trainer.train.evaluate import evaluate
    from xeontrain_trainer.train.setup import evaluation_samples

    modes = [module.training for module in built.model.modules()]
    samples = evaluation_samples(job.prepared, task=built.task, processor=built.processor)
    scores = evaluate(built, samples, prepared=job.prepared)
    assert [module.training for module in built.model.modules()] == modes
    return scores


def _dropout(job: Job, probability: float) -> dict[str, float]:
    """A ResNet has none."""
    return {} if job.training["task"] == "image-classification" else {"dropout": probability}


class _Recorder:
    """Samples that note which of them were asked for."""

    def __init__(self, samples: Any) -> None:
        self.samples = samples
        self.asked: list[tuple[int, list[int]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.samples, name)

    def batch(self, rows: Sequence[int], *, epoch: int) -> Any:
        """As the samples have it."""
        self.asked.append((epoch, list(rows)))
        return self.samples.batch(rows, epoch=epoch)


def _training(
    job: Job, environment: Any, *, epochs: int
) -> tuple[list[tuple[int, list[int]]], dict[str, float]]:
    """Epoch and samples of each step, and the evaluation at the end."""
    from xeontrain_trainer.train.loop import train_epochs

    # A rank without samples of its own computes another's, which would count twice here.
    count = job.prepared.train_samples
    size = next(size for size in range(8, 16) if count % size == 0 or count % size >= 4)
    built = _built(job, environment, epochs=epochs, batchSize=size, **_dropout(job, 0.1))
    built.samples = _Recorder(built.samples)
    assert len(list(train_epochs(built))) == epochs
    return list(built.samples.asked), _evaluated(job, built)


def _built(job: Job, environment: Any, **hyperparameters: Any) -> Any:
    from xeontrain_trainer.train.backend import Backend
    from xeontrain_trainer.train.config import parse_training
    from xeontrain_trainer.train.setup import build_training
    from xeontrain_trainer.train.tasks import task_of

    known = job.training["hyperparameters"]
    config = parse_training({**job.training, "hyperparameters": {**known, **hyperparameters}})
    backend = Backend("gloo", "a test")
    return build_training(
        config, task=task_of(config), prepared=job.prepared, environment=environment, backend=backend
    )


@dataclass(frozen=True)
class Stopped:
    """How a training ended: the error's message, how often weights changed, and whether its last step did."""

    message: str
    changes: int
    left_alone: bool
    dtypes: set[str]


def train_with_a_nan(job: Job, *, poisoned_rank: int, at_step: int) -> Stopped:
    """Train in BF16; the loss of `poisoned_rank` is NaN at one step, with gradients as they should be."""
    import torch
    from xeontrain_trainer.train import loop
    from xeontrain_trainer.train.errors import LossNotFiniteError

    with _group() as environment:
        built = _built(Job({**job.training, "precision": "BF16"}, job.prepared), environment)
        real, calls = loop.summed_loss, 0

        def poisoned(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            loss, outputs = real(*arguments, **options)
            if environment.rank == poisoned_rank and calls == at_step:
                # Not in the graph: only the number that is compared is NaN.
                loss = loss + torch.full_like(loss, torch.nan).detach()
            return loss, outputs

        loop.summed_loss = poisoned
        weights = [_digest(built.model)]
        step = built.optimizer.step

        def counted_step(*arguments: Any) -> None:
            step(*arguments)
            weights.append(_digest(built.model))

        built.optimizer.step = counted_step
        try:
            for _ in loop.train_epochs(built):
                pass
        except LossNotFiniteError as error:
            states = built.optimizer.state.values()
            tensors = [*built.model.parameters(), *(one["exp_avg"] for one in states)]
            return Stopped(
                message=str(error),
                changes=len(set(weights)) - 1,
                left_alone=_digest(built.model) == weights[-1],
                dtypes={str(tensor.dtype) for tensor in tensors},
            )
    raise AssertionError("it trained to its end")


def _digest(model: Any) -> str:
    return hashlib.sha256(
        b"".join(tensor.detach().numpy().tobytes() for tensor in model.parameters())
    ).hexdigest()


def plain(jobs: Mapping[str, Job]) -> dict[str, list[Step]]:
    """The reference: the same by transformers' own loss of each sample by itself, without DDP or padding."""
    return {name: _plain_steps(job) for name, job in jobs.items()}


def _plain_steps(job: Job) -> list[Step]:
    from xeontrain_trainer.train.config import parse_training
    from xeontrain_trainer.train.data import load_samples
    from xeontrain_trainer.train.model import load_model
    from xeontrain_trainer.train.samples import Samples
    from xeontrain_trainer.train.tasks import task_of

    task = task_of(parse_training(job.training))
    processor = task.load_processor(job.prepared.model_folder)
    samples = Samples.of(load_samples(job.prepared, "train"), task=task, processor=processor)
    model: Any = load_model(
        job.prepared.model_folder, task=task, labels=job.prepared.labels, dropout=0.0, seed=42
    )
    known = inspect.signature(model.forward).parameters
    done = []
    for batch_rows in batches(len(samples.lengths)):
        model.zero_grad(set_to_none=True)
        loss = 0.0
        for row in batch_rows:
            batch = samples.batch([row], epoch=0)
            mean = model(**{name: tensor for name, tensor in batch.items() if name in known}).loss
            share = mean * samples.items[row] / samples.count_items(batch_rows)
            share.backward()
            loss += float(share.detach())
        done.append(Step(loss=loss, gradients=_gradients(model)))
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


def train_until(*, stop_after: int | None, kill_after: int | None) -> int:
    """A rank of a job until its end; or until a step in which the last rank finds the stop file, or after
    which all ranks are killed."""
    from xeontrain_trainer.train import loop

    real = loop.train_step

    def counted(training: Any, batch: Any, *, step: int) -> Any:
        if kill_after is not None and step == kill_after + 1:
            os.kill(os.getpid(), signal.SIGKILL)
        environment = training.environment
        if step == stop_after and environment.rank == environment.world_size - 1:
            Path(environment.stop_file).touch()
        return real(training, batch, step=step)

    loop.train_step = counted
    return train()


def agree_backend() -> tuple[str | None, str]:
    """This rank's backend, None for a refusal; and why. TEST_SITE: a folder with more packages."""
    from xeontrain_trainer.train.backend import agree_backend
    from xeontrain_trainer.train.distributed import open_store
    from xeontrain_trainer.train.environment import Environment
    from xeontrain_trainer.train.errors import UserError

    if os.environ["TEST_SITE"]:
        sys.path.insert(0, os.environ["TEST_SITE"])
    environment = Environment.from_environ(os.environ)
    store = open_store(environment)
    try:
        backend = agree_backend(store, environment=environment)
        found = (backend.name, backend.reason)
    except UserError as error:
        found = (None, str(error))
    # The store ends with rank 0, so it stays until all have met there.
    if store.add("ended", 1) == environment.world_size:
        store.set("all", "ended")
    if environment.is_main:
        store.wait(["all"])
    return found


def measure_ways(seconds: Sequence[Sequence[float]]) -> tuple[list[float], int]:
    """What the probe finds where rank i takes seconds[i][j] for way j; and how often this rank ran way 0."""
    from xeontrain_trainer.train.probe import slowest_seconds

    runs = 0

    def way(index: int) -> Callable[[], None]:
        def run() -> None:
            nonlocal runs
            runs += index == 0
            time.sleep(seconds[environment.rank][index])

        return run

    with _group() as environment:
        found = slowest_seconds([way(index) for index in range(len(seconds[0]))])
        return found, runs


def agree_on_cores(problems: Sequence[str | None]) -> Any:
    """The precision that this rank comes to with Auto, where rank i's cores have problems[i]."""
    from xeontrain_trainer.train.cores import Cores
    from xeontrain_trainer.train.distributed import gather
    from xeontrain_trainer.train.precision import Rates, decide

    with _group() as environment:
        cores = gather(Cores(model=f"Xeon {environment.rank}", problem=problems[environment.rank]))
        return decide("Auto", cores=cores, measure=lambda: Rates(fp32=1.0, bf16=2.0))


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
