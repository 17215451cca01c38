"""The `training` block of a XeonTrainJob as frozen dataclasses. Standard library only.

Names are those of the resource in snake_case; defaults and bounds are the resource's. The API server has
checked them already, so what is refused here is what a hand-written training document could get wrong.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import contract
from .errors import BadConfigError, MissingFileError

TASKS = (
    "text-classification",
    "question-answering",
    "token-classification",
    "image-classification",
    "causal-language-modeling",
)
SCHEDULES = ("linear", "cosine", "constant")
PRECISIONS = ("Auto", "BF16", "FP32")
IPEX = ("Auto", "Enabled", "Disabled")


@dataclass(frozen=True)
class HubDataset:
    """A dataset of the Hugging Face Hub."""

    name: str
    """Name on the Hub, such as `stanfordnlp/imdb`."""
    config: str | None = None
    """Configuration of the dataset, where it has several."""
    revision: str | None = None
    """Branch, tag or commit."""
    train_split: str = "train"
    """Split to train on."""
    eval_split: str | None = None
    """Split to evaluate on; none: no evaluation."""


@dataclass(frozen=True)
class DataFiles:
    """Files in the container: CSV, TSV, JSON lines or Parquet, also gzipped, and what else the task reads."""

    train: tuple[str, ...] = ()
    """Paths or globs of the rows to train on."""
    eval: tuple[str, ...] = ()
    """Paths or globs of the rows to evaluate on; none: no evaluation."""


@dataclass(frozen=True)
class Columns:
    """Which column holds what."""

    text: str = "text"
    """The text to classify."""
    text_pair: str | None = None
    """A second text, for tasks on pairs of sentences."""
    label: str = "label"
    """The class: a string or a whole number."""
    tokens: str = "tokens"
    """The list of words, for token classification."""
    tags: str = "tags"
    """The list of tags, for token classification."""
    question: str = "question"
    """The question, for question answering."""
    context: str = "context"
    """The text that holds the answer, for question answering."""
    answers: str = "answers"
    """The answers with their starts, for question answering."""
    image: str = "image"
    """The image or its path, for image classification."""


@dataclass(frozen=True)
class Dataset:
    """Where the rows come from: exactly one of `hub` and `files`."""

    hub: HubDataset | None = None
    """A dataset of the Hub."""
    files: DataFiles | None = None
    """Files in the container."""
    columns: Columns = field(default_factory=Columns)
    """Which column holds what."""


@dataclass(frozen=True)
class Hyperparameters:
    """How to train."""

    epochs: int = 1
    """Passes over the training rows."""
    max_steps: int | None = None
    """Optimizer steps after which training ends, even in the middle of an epoch."""
    batch_size: int = 16
    """Samples of one optimizer step, over all ranks and accumulation steps: the global batch."""
    accumulation_steps: int = 1
    """Pieces that each rank cuts its share of the global batch into, to need less memory."""
    learning_rate: float = 5e-5
    """Highest learning rate of the schedule."""
    weight_decay: float = 0.01
    """AdamW's weight decay, not applied to biases and norms."""
    warmup_ratio: float = 0.1
    """Share of the steps in which the learning rate rises from 0."""
    schedule: str = "linear"
    """What the learning rate does after the warm-up: linear, cosine (both fall to 0) or constant."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this norm; 0: never."""
    max_length: int = 128
    """Tokens of a sample; longer texts are cut off (text-classification) or into several samples."""
    dropout: float | None = None
    """Probability for every dropout of the model; none: the model's own."""
    seed: int = 42
    """Seed of the new head, of dropout and of the order of rows."""


@dataclass(frozen=True)
class TrainingConfig:
    """The `training` block."""

    task: str
    """What is learned."""
    model: str
    """Name of a model on the Hugging Face Hub, or a folder in the container."""
    dataset: Dataset
    """The rows."""
    model_revision: str | None = None
    """Branch, tag or commit of the model."""
    hyperparameters: Hyperparameters = field(default_factory=Hyperparameters)
    """How to train."""
    precision: str = "Auto"
    """BF16 (autocast, weights stay FP32), FP32, or Auto: BF16 where the cores have it and it is faster."""
    compile: bool = False
    """Whether to compile the model with torch.compile."""
    ipex: str = "Auto"
    """Whether to use Intel Extension for PyTorch: only where Enabled."""


@dataclass(frozen=True)
class Checkpointing:
    """The `checkpoint` block: when the state is saved."""

    every_steps: int | None = None
    """Save after this many optimizer steps."""
    every_minutes: float = 10
    """Save when this many minutes have passed since the last time."""
    keep: int = 2
    """Newest checkpoints kept."""
    resume: str | None = None
    """Another run's checkpoint, or its folder of them, to start from; none: this job's own newest."""


@dataclass(frozen=True)
class JobDocument:
    """What a rank reads of its job."""

    training: TrainingConfig
    checkpoint: Checkpointing = field(default_factory=Checkpointing)
    job_uid: str = ""
    """Whose checkpoints are this job's own."""


def read_document(path: str) -> JobDocument:
    """The training document at `path` (docs/contract.md).

    Raises MissingFileError where the file is not there, BadConfigError where it is not what it should be.
    """
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise MissingFileError(
            contract.ENV_TRAINING_FILE,
            cause=f"the training document {path} cannot be read: {error.strerror}",
            remedy="Run the trainer under the launcher, or name a training document",
        ) from None
    except ValueError as error:
        raise BadConfigError(
            contract.ENV_TRAINING_FILE,
            cause=f"the training document {path} is not JSON: {error}",
            remedy="Write it with `xeontrain render`",
        ) from None
    version = document.get("contract") if isinstance(document, dict) else None
    if version != contract.CONTRACT_VERSION:
        raise BadConfigError(
            contract.ENV_TRAINING_FILE,
            cause=f"{path} is of contract version {version}, this trainer speaks {contract.CONTRACT_VERSION}",
            remedy="Use the trainer image that belongs to the operator's version",
        )
    return JobDocument(
        training=parse_training(document.get("training")),
        checkpoint=_checkpointing(document.get("checkpoint") or {}),
        job_uid=str(document.get("jobUid", "")),
    )


def parse_training(document: Any) -> TrainingConfig:
    """The config that the JSON of a `training` block says. Raises BadConfigError, naming the field."""
    values = _values(TrainingConfig, document, at="spec.training", required=("task", "model", "dataset"))
    values["dataset"] = _dataset(values["dataset"])
    values["hyperparameters"] = _hyperparameters(values.get("hyperparameters", {}))
    config = TrainingConfig(**values)
    _choice("spec.training.task", config.task, TASKS)
    _choice("spec.training.precision", config.precision, PRECISIONS)
    _choice("spec.training.ipex", config.ipex, IPEX)
    return config


def _dataset(document: Any) -> Dataset:
    at = "spec.training.dataset"
    values = _values(Dataset, document, at=at)
    if ("hub" in values) == ("files" in values):
        raise BadConfigError(
            at, cause="it needs exactly one of `hub` and `files`", remedy="Write one of them"
        )
    if "hub" in values:
        values["hub"] = HubDataset(**_values(HubDataset, values["hub"], at=f"{at}.hub", required=("name",)))
    else:
        files = _values(DataFiles, values["files"], at=f"{at}.files", required=("train",))
        values["files"] = DataFiles(**{split: tuple(paths) for split, paths in files.items()})
        if not values["files"].train:
            raise BadConfigError(
                f"{at}.files.train", cause="the list is empty", remedy="Write a path or a glob"
            )
    values["columns"] = Columns(**_values(Columns, values.get("columns", {}), at=f"{at}.columns"))
    return Dataset(**values)


def _hyperparameters(document: Any) -> Hyperparameters:
    at = "spec.training.hyperparameters"
    parameters = Hyperparameters(**_values(Hyperparameters, document, at=at))
    _choice(f"{at}.schedule", parameters.schedule, SCHEDULES)
    for name in ("epochs", "max_steps", "batch_size", "accumulation_steps", "max_length"):
        _whole(f"{at}.{_camel(name)}", getattr(parameters, name), least=1)
    return parameters


def _checkpointing(document: Any) -> Checkpointing:
    at = "spec.checkpoint"
    checkpoint = Checkpointing(**_values(Checkpointing, document, at=at))
    for name, least in (("every_steps", 1), ("keep", 2)):
        _whole(f"{at}.{_camel(name)}", getattr(checkpoint, name), least=least)
    return checkpoint


def _values(kind: type, document: Any, *, at: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """The keyword arguments for the dataclass `kind`: keys in snake_case, nulls (meaning unset) left out."""
    if not isinstance(document, Mapping):
        raise BadConfigError(at, cause="it is not an object", remedy="Write it as `xeontrain explain` shows")
    names = {_camel(item.name): item.name for item in dataclasses.fields(kind)}
    for key in document:
        if key not in names:
            raise BadConfigError(
                f"{at}.{key}", cause="there is no such field", remedy=f"Fields: {', '.join(names)}"
            )
    values = {names[key]: value for key, value in document.items() if value is not None}
    for name in required:
        if name not in values:
            raise BadConfigError(f"{at}.{_camel(name)}", cause="it is missing", remedy="Write it")
    return values


def _whole(at: str, value: Any, *, least: int) -> None:
    if value is not None and (not isinstance(value, int) or value < least):
        raise BadConfigError(at, cause=f"it is {value}", remedy=f"Write a whole number from {least}")


def _choice(at: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise BadConfigError(
            at, cause=f"{value!r} is unknown here", remedy=f"Write one of: {', '.join(choices)}"
        )


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
