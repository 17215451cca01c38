"""One rank from its start to its end: check, prepare, meet the others, train, evaluate, save."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from ..caches import moved_caches
from ..plan import Plan, plan_from_json
from . import meeting
from .affinity import affinity, place_threads
from .compiling import compile_environment
from .config import JobDocument, TrainingConfig, read_document
from .data import Prepared, prepare
from .environment import Environment
from .files import find_sources
from .tasks import task_of

if TYPE_CHECKING:
    from .backend import Backend


def run(environment: Environment) -> None:
    """Do this rank's part of the job. Raises what errors.py names; anything else is a bug or a lost peer."""
    listener = meeting.listen(environment)
    document = read_document(environment.training_file)
    config = document.training
    # Before the libraries are imported: they read their environment once.
    os.environ.update(moved_caches(os.environ, state_dir=environment.state_dir))
    os.environ.update(compile_environment(config, environment=environment, environ=os.environ))
    # Only now: what every rank finds wrong by itself each says at once, and none waits for one that has gone.
    meeting.reach(environment)
    plan = read_plan(environment.plan_file)
    mine = _prepare(config, environment=environment, plan=plan) if environment.prepares_data else None
    # Imported only now: torch takes seconds, and what is wrong with the data should be told before that.
    from . import distributed
    from .backend import agree_backend
    from .cores import keep_to_listed, read_flags

    keep_to_listed(read_flags(os.sched_getaffinity(0)))
    comm_cpus = plan.ranks[environment.local_rank].comm_cpus if plan else ()
    store = distributed.open_store(environment, listener=listener, comm_cpus=comm_cpus)
    prepared = distributed.share_prepared(store, mine, environment=environment)
    backend = agree_backend(store, environment=environment)
    with distributed.process_group(store, environment=environment, backend=backend.name, comm_cpus=comm_cpus):
        _train(document, prepared=prepared, environment=environment, backend=backend, plan=plan)


def read_plan(plan_file: str | None) -> Plan | None:
    """The launcher's plan of this worker; None where there is none."""
    if plan_file is None or not os.path.exists(plan_file):
        return None
    with open(plan_file, encoding="utf-8") as file:
        return plan_from_json(json.load(file))


def _prepare(config: TrainingConfig, *, environment: Environment, plan: Plan | None) -> Prepared:
    """This worker's samples, made on all its CPUs: the other ranks of the worker wait for them."""
    task, files = task_of(config), config.dataset.files
    sources = find_sources(files, columns=task.columns(), formats=task.formats) if files else {}
    if environment.is_main:
        # The first sign of life: libraries, data and model take from seconds to minutes from here.
        print(f"reading data for {config.model}", file=sys.stderr, flush=True)
    with affinity(plan.cpus if plan and plan.bound else ()):
        processes = len(os.sched_getaffinity(0))
        return prepare(
            config, task=task, sources=sources, state_dir=environment.state_dir, processes=processes
        )


def _train(
    document: JobDocument,
    *,
    prepared: Prepared,
    environment: Environment,
    backend: Backend,
    plan: Plan | None,
) -> None:
    """Train, evaluate after each epoch, and leave model and metrics."""
    from .evaluate import evaluate
    from .export import save_model, write_metrics
    from .loop import train_epochs
    from .setup import build_training, evaluation_samples

    task = task_of(document.training)
    training = build_training(
        document.training,
        task=task,
        prepared=prepared,
        environment=environment,
        backend=backend,
        plan=plan,
        checkpoint=document.checkpoint,
        job_uid=document.job_uid,
    )
    place_threads(plan, local_rank=environment.local_rank)
    evaluation = evaluation_samples(prepared, task=task, processor=training.processor)
    say = training.progress.say
    metrics: dict[str, float] = {}
    for outcome in train_epochs(training):
        metrics = outcome.metrics()
        if evaluation:
            metrics |= evaluate(training, evaluation, prepared=prepared)
        say("  ".join(f"{name} {value:.4g}" for name, value in metrics.items()))
    if not environment.is_main:
        return
    metrics |= {
        "worldSize": environment.world_size,
        "trainRows": prepared.train_rows,
        "trainSamples": prepared.train_samples,
    }
    model_path = save_model(training.model, training.processor, environment=environment)
    write_metrics(environment.metrics_file, metrics=metrics, model=model_path)
    say(
        f"model saved to {model_path}"
        if model_path
        else "model not kept: the job has no storage (spec.storage)"
    )
