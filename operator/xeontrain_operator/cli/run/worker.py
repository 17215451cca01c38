"""One worker as a process: what it runs, with which environment, on which CPUs. Pure but for the folders."""

from __future__ import annotations

import glob
import json
import os
import socket
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from xeontrain_operator import constants as c
from xeontrain_operator.api.v1alpha1 import XeonTrainJob
from xeontrain_operator.builders.config_map import training_document
from xeontrain_operator.builders.launcher import OWN_COMMAND, launcher_command
from xeontrain_operator.builders.names import job_folder, pod_name
from xeontrain_operator.builders.pod import build_pod_template
from xeontrain_operator.cli.files import InputError
from xeontrain_operator.cli.run.environment import container_environment, expanded
from xeontrain_operator.cli.run.objects import Objects
from xeontrain_operator.cli.run.volumes import Folders, Mounts, make_mounts
from xeontrain_operator.settings import Settings

JsonDict = dict[str, Any]

LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True)
class Ports:
    """Ports of the loopback interface: each launcher's own, and the first of the rendezvous' range."""

    launchers: tuple[int, ...]
    rendezvous: int


@dataclass(frozen=True)
class Worker:
    """All that is needed to start one launcher."""

    number: int
    argv: tuple[str, ...]
    environ: Mapping[str, str]
    cpus: tuple[int, ...]
    port: int
    working_dir: Path | None
    log: Path
    termination_log: Path
    job_dir: Path


def prepare_worker(
    job: XeonTrainJob,
    *,
    number: int,
    cpus: tuple[int, ...],
    ports: Ports,
    folders: Folders,
    objects: Objects,
    source: str,
) -> Worker:
    """Make a worker's folders and return how to start its launcher. Raises InputError."""
    pod = build_pod_template(job, settings=Settings())["spec"]
    container = pod["containers"][0]
    own = folders.worker(number)
    own.mkdir(parents=True, exist_ok=True)
    mounts = make_mounts(job, pod, worker=number, folders=folders, objects=objects, source=source)
    variables = container_environment(
        container, fields=_pod_fields(job, number=number), objects=objects, source=source
    )
    if not any(variable.name == "HOME" for variable in job.spec.env):
        # The pod has none; here a person has one, with the caches of models in it.
        variables.pop("HOME", None)
    # All talk over the loopback interface here, whatever the job's pods have.
    variables.pop(c.ENV_INTERFACE, None)
    variables |= _places(job, own=own, mounts=mounts, folders=folders)
    variables |= _network(number=number, cpus=cpus, ports=ports)
    command = container["command"][len(launcher_command(job)) :]
    arguments = (local_argument(expanded(argument, variables), mounts=mounts) for argument in command)
    argv = (sys.executable, *OWN_COMMAND[1:], *arguments)
    _refuse_nul({"spec.command and spec.args": "".join(argv)}, source=source)
    _refuse_nul({f"spec.env ({name})": value for name, value in variables.items()}, source=source)
    return Worker(
        number=number,
        argv=argv,
        environ=_inherited() | variables | {"PATH": _path(variables)},
        cpus=cpus,
        port=ports.launchers[number],
        working_dir=Path(mounts.local(job.spec.working_dir)) if job.spec.working_dir else None,
        log=own / "launcher.log",
        termination_log=own / "termination-log",
        job_dir=Path(variables[c.ENV_JOB_DIR]),
    )


def _refuse_nul(texts: Mapping[str, str], *, source: str) -> None:
    """Refuse what no program can be given; a node would fail to start the container."""
    for field, text in texts.items():
        if "\0" in text:
            raise InputError(
                f"{source}: {field}: has a NUL character, which ends a text for a program; remove it"
            )


def _inherited() -> dict[str, str]:
    owned = set(c.OWNED_ENV)
    return {k: v for k, v in os.environ.items() if k not in owned and not k.startswith("XEONTRAIN_")}


def _path(variables: Mapping[str, str]) -> str:
    """The interpreter that runs this command comes first, as the image's would."""
    return os.pathsep.join(
        (str(Path(sys.executable).parent), variables.get("PATH") or os.environ.get("PATH", os.defpath))
    )


def _pod_fields(job: XeonTrainJob, *, number: int) -> dict[str, str]:
    name, node = pod_name(job.metadata, worker=number), socket.gethostname()
    labels = {**job.spec.pod_template.labels, c.LABEL_POD_INDEX: str(number)}
    return {
        "metadata.name": name,
        "metadata.namespace": job.metadata.namespace,
        "metadata.uid": str(uuid.uuid4()),
        "spec.nodeName": node,
        "spec.serviceAccountName": job.spec.pod_template.service_account_name or "default",
        "status.podIP": LOOPBACK,
        "status.podIPs": LOOPBACK,
        "status.hostIP": LOOPBACK,
        **{f"metadata.labels['{key}']": value for key, value in labels.items()},
        **{f"metadata.annotations['{key}']": text for key, text in job.spec.pod_template.annotations.items()},
    }


def _places(job: XeonTrainJob, *, own: Path, mounts: Mounts, folders: Folders) -> dict[str, str]:
    """The contract's paths. Here the model is kept even where the job names no storage."""
    storage = Path(mounts.local(c.STORAGE_DIR)) if job.spec.storage else folders.output / "storage"
    job_dir = storage / job_folder(job.metadata)
    job_dir.mkdir(parents=True, exist_ok=True)
    places = {
        c.ENV_STATE_DIR: mounts.local(c.STATE_DIR),
        c.ENV_JOB_DIR: str(job_dir),
        c.ENV_TERMINATION_LOG: str(own / "termination-log"),
    }
    if job.spec.training is not None:
        file = own / "training.json"
        document = local_document(training_document(job), mounts=mounts)
        file.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        places[c.ENV_TRAINING_FILE] = str(file)
    return places


def local_document(document: JsonDict, *, mounts: Mounts) -> JsonDict:
    """Return the training document with paths under a mount led to their folders on this machine."""
    training = document["training"]
    dataset, checkpoint = dict(training["dataset"]), dict(document["checkpoint"])
    if "files" in dataset:
        dataset["files"] = {
            split: [mounts.local(pattern, escape=glob.escape) for pattern in patterns]
            for split, patterns in dataset["files"].items()
        }
    if "resume" in checkpoint:
        checkpoint["resume"] = mounts.local(checkpoint["resume"])
    model = mounts.local(training["model"])
    return {
        **document,
        "training": {**training, "model": model, "dataset": dataset},
        "checkpoint": checkpoint,
    }


def local_argument(argument: str, *, mounts: Mounts) -> str:
    """Return an argument of a command with a path under a mount led to its folder on this machine.

    Also where the path is the value of an option, as in `--data=/data/train.csv`; not inside other text.
    """
    option, equals, path = argument.partition("=")
    if equals and option.startswith("-"):
        return f"{option}={mounts.local(path)}"
    return mounts.local(argument)


def _network(*, number: int, cpus: tuple[int, ...], ports: Ports) -> dict[str, str]:
    """Everything on the loopback interface, each launcher on a port of its own."""
    return {
        c.ENV_COORDINATOR: LOOPBACK,
        c.ENV_COORDINATOR_PORT: str(ports.launchers[0]),
        c.ENV_LAUNCHER_PORT: str(ports.launchers[number]),
        c.ENV_MASTER_PORT: str(ports.rendezvous),
        c.ENV_CPU_LIMIT_MILLIS: str(1000 * len(cpus)),
        # Whether CPUs are exclusive is not judged here.
        c.ENV_PINNING: "Preferred",
    }
