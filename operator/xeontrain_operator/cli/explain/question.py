"""What the planner is asked: a job's pod as the operator would make it, on a machine. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from xeontrain_operator import constants as c
from xeontrain_operator.api.v1alpha1 import XeonTrainJob, cpu_millis
from xeontrain_operator.builders.pod import build_trainer_container
from xeontrain_operator.cli.files import InputError
from xeontrain_operator.cli.run.environment import container_environment, expanded
from xeontrain_operator.cli.run.objects import Objects
from xeontrain_operator.settings import Settings

JsonDict = dict[str, Any]

POD_INTERFACE: Final = "eth0"
"""What the network plugins in use call a pod's interface."""


@dataclass(frozen=True)
class Options:
    """The options of the command, as typed."""

    sysfs: str | None = None
    cpus: str | None = None
    ranks: str | None = None


@dataclass(frozen=True)
class Question:
    """`arguments` for `python -m xeontrain_trainer.plan`, the pod's `environ`, what had to be assumed, and
    the whole CPUs that the job asks for (None: all that there are). `title`, `source`: the job, its file."""

    arguments: tuple[str, ...]
    environ: dict[str, str]
    assumptions: tuple[str, ...] = ()
    asked_cpus: int | None = None
    title: str = ""
    source: str = ""


def about_machine(options: Options) -> Question:
    """A worker with all the CPUs that it may have, of a job of several workers. Raises InputError."""
    return Question(
        arguments=_arguments(options),
        environ={c.ENV_WORKERS: "2", c.ENV_INTERFACE: POD_INTERFACE},
        assumptions=(
            "the job has other workers, so each rank has communication to do",
            f"the network interface is {POD_INTERFACE}; libraries are looked for on this machine",
        ),
    )


def about_job(job: XeonTrainJob, options: Options, *, objects: Objects, source: str) -> Question:
    """Worker 0 of the job. `objects`: ConfigMaps and Secrets of the same file. Raises InputError."""
    spec = job.spec
    environ, unknown = _environment(job, objects=objects, source=source)
    assumptions = list(unknown)
    if spec.distributed.interface is None:
        environ[c.ENV_INTERFACE] = POD_INTERFACE
        assumptions.append(f"the pod's network interface is {POD_INTERFACE}")
    assumptions.append("libraries are looked for on this machine; a pod has those of its image")
    if spec.workers > 1:
        assumptions.append(f"all {spec.workers} workers get such CPUs")
    arguments, asked = _arguments(options), None
    if options.cpus is None and spec.pinning != "Disabled":
        asked = -(-cpu_millis(spec.resources.cpu) // 1000)
        arguments += ("--grant", str(asked))
    if spec.training is not None and spec.training.ipex == "Enabled":
        arguments += ("--ipex",)
    return Question(
        arguments=arguments,
        environ=environ,
        assumptions=tuple(assumptions),
        asked_cpus=asked,
        title=job.metadata.name,
        source=source,
    )


def _arguments(options: Options) -> tuple[str, ...]:
    arguments: tuple[str, ...] = ()
    if options.sysfs is not None:
        arguments += ("--sysfs", options.sysfs)
    if options.cpus is not None:
        # With = a list that begins with a dash is not taken for an option.
        arguments += (f"--cpus={options.cpus}",)
    ranks = None if options.ranks is None else _ranks(options.ranks)
    return arguments if ranks is None else (*arguments, "--ranks", str(ranks))


def _ranks(text: str) -> int | None:
    """None for auto, which is what the job or the machine wants."""
    if text.lower() == "auto":
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 64):
        raise InputError(f"--ranks is {text}; write auto or a number from 1 to 64")
    return int(text)


def _environment(job: XeonTrainJob, *, objects: Objects, source: str) -> tuple[dict[str, str], list[str]]:
    """The trainer container's environment, and sentences about what of it only a cluster knows."""
    container = build_trainer_container(job, settings=Settings())
    result: dict[str, str] = {}
    unknown = []
    own = {variable.name for variable in job.spec.env}

    def resolve(part: JsonDict, name: str | None) -> None:
        try:
            values = container_environment(
                {"resources": container["resources"], "env": [], **part},
                fields={},
                objects=objects,
                source=source,
            )
        except InputError as error:
            if name is None or name in own:
                unknown.append(f"not known here, so left out: {error}")
        else:
            result.update(values)

    for entry in container.get("envFrom", ()):
        resolve({"envFrom": [entry]}, None)
    for entry in container["env"]:
        if "valueFrom" in entry:
            resolve({"env": [entry]}, entry["name"])
        else:
            result[entry["name"]] = expanded(entry.get("value", ""), result)
    return result, unknown
