"""`spec.training`: the built-in fine-tuning."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from xeontrain_operator.api.v1alpha1.base import ATOMIC, Model, PathText, ShortText, cel, rules

Task = Literal[
    "text-classification",
    "question-answering",
    "token-classification",
    "image-classification",
    "causal-language-modeling",
]
ColumnName = Annotated[str, Field(min_length=1, max_length=128)]
FilePatterns = Annotated[tuple[PathText, ...], Field(min_length=1, max_length=64, json_schema_extra=ATOMIC)]


class HubDataset(Model):
    """A dataset of the Hugging Face Hub."""

    name: Annotated[str, Field(min_length=1, max_length=256)]
    """Name on the Hub, such as stanfordnlp/imdb."""
    config: ShortText | None = None
    """Configuration of the dataset, where it has several."""
    revision: ShortText | None = None
    """Branch, tag or commit; the newest where unset."""
    train_split: Annotated[str, Field(min_length=1, max_length=128)] = "train"
    """Split to train on."""
    eval_split: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Split to evaluate on; unset: no evaluation."""


class DataFiles(Model):
    """Files in the container: CSV, JSON lines or Parquet, also gzipped (.gz).

    Also CoNLL files (.conll, .txt) for token-classification, SQuAD's own JSON for question-answering, and for
    image-classification images, or a folder with a folder of images for each class.
    """

    train: FilePatterns
    """Paths or globs of the files to train on, such as /data/train-*.csv.gz."""
    eval: FilePatterns | None = None
    """Paths or globs of the files to evaluate on; unset: no evaluation."""


class Columns(Model):
    """Which columns of the data are meant; each task reads its own."""

    text: ColumnName = "text"
    """The text (text-classification, causal-language-modeling)."""
    text_pair: ColumnName | None = None
    """The second text of a pair (text-classification)."""
    label: ColumnName = "label"
    """The label (text-classification, image-classification)."""
    tokens: ColumnName = "tokens"
    """The list of words (token-classification); of CoNLL files the column's number, unset: the first."""
    tags: ColumnName = "tags"
    """The list of tags, one a word (token-classification); of CoNLL files as above, unset: the last."""
    question: ColumnName = "question"
    """The question (question-answering)."""
    context: ColumnName = "context"
    """The text that holds the answer (question-answering)."""
    answers: ColumnName = "answers"
    """The answers with their start (question-answering)."""
    image: ColumnName = "image"
    """The image or its path (image-classification)."""


class Dataset(Model):
    """The data: from the Hub or from files, exactly one of the two."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            cel(
                "has(self.hub) != has(self.files)",
                "write exactly one of hub (a dataset of the Hugging Face Hub) and files (paths in the pod)",
            )
        )
    )

    hub: HubDataset | None = None
    """A dataset of the Hugging Face Hub."""
    files: DataFiles | None = None
    """Files in the container."""
    columns: Columns = Columns()
    """Names of the columns."""


class Hyperparameters(Model):
    """How the model is trained. The result does not depend on how many ranks share the work."""

    epochs: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Times that the data is gone through."""
    max_steps: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    """End after this many optimizer steps, even within an epoch."""
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)] = 16
    """Samples of one optimizer step, over all ranks together."""
    accumulation_steps: Annotated[int, Field(ge=1, le=4096)] = 1
    """Parts that each rank cuts its share of a batch into, one after another, to need less memory."""
    learning_rate: Annotated[float, Field(gt=0, le=1_000_000_000)] = 5e-5
    """Highest learning rate of the schedule."""
    weight_decay: Annotated[float, Field(ge=0, le=10)] = 0.01
    """Weight decay of AdamW."""
    warmup_ratio: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Share of the steps in which the learning rate rises."""
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    """How the learning rate falls after that."""
    max_grad_norm: Annotated[float, Field(gt=0, le=1_000_000)] = 1.0
    """Gradients are scaled down to this norm."""
    max_length: Annotated[int, Field(ge=2, le=1_048_576)] = 128
    """Tokens of a sample; longer texts are cut off (text-classification) or into several samples."""
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Dropout in all layers; unset: the model's own."""
    seed: Annotated[int, Field(ge=0, le=4_294_967_295)] = 42
    """Seed of the order of the data, of new weights and of dropout."""


class Training(Model):
    """The built-in fine-tuning."""

    task: Task
    """What the model learns to do."""
    model: Annotated[str, Field(min_length=1, max_length=512)]
    """Name on the Hugging Face Hub, or a path in the container."""
    model_revision: ShortText | None = None
    """Branch, tag or commit of the model; the newest where unset."""
    dataset: Dataset
    """The data."""
    hyperparameters: Hyperparameters = Hyperparameters()
    """How the model is trained."""
    precision: Literal["Auto", "BF16", "FP32"] = "Auto"
    """Auto: BF16 where every core computes it in hardware and a probe finds it faster, FP32 otherwise. BF16:
    on any core, slowly where it is emulated."""
    compile: bool = False
    """Whether the model goes through torch.compile, which pays only in long runs."""
    ipex: Literal["Auto", "Enabled", "Disabled"] = "Auto"
    """Use of Intel Extension for PyTorch; Auto: where it fits the torch of the image and is faster."""
