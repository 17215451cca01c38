"""Fine-tuning with Hugging Face's Trainer, as a newcomer puts it into a Kubeflow PyTorchJob.

The defaults are the tutorial's: float32, every text padded to the longest length, no word about threads. The
options switch on, one at a time, what XeonTrain's built-in task does by itself. `use_cpu` is set, which the
tutorial leaves out: without it each process of transformers 5 trains alone and says nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

MODEL = "sentence-transformers/all-MiniLM-L6-v2"


class Stamps(TrainerCallback):
    """Notes when each step began and ended, in seconds of time.monotonic."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, float]] = []
        self._started = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """The batch has been fetched."""
        self._started = time.monotonic()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """The weights have been changed."""
        self.steps.append((self._started, time.monotonic()))


def main() -> None:
    """Trains, evaluates, saves the model and writes the report."""
    args = _arguments()
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    data = _tokenized(args, tokenizer=tokenizer)
    stamps = Stamps()
    trainer = Trainer(
        model=AutoModelForSequenceClassification.from_pretrained(MODEL, num_labels=2),
        args=_training_arguments(args),
        train_dataset=data["train"],
        eval_dataset=data["eval"],
        processing_class=tokenizer,
        data_collator=DataCollatorWithPadding(tokenizer) if args.dynamic_padding else None,
        compute_metrics=_accuracy,
        callbacks=[stamps],
    )
    trainer.train()
    accuracy = trainer.evaluate()["eval_accuracy"] if args.evaluate else None
    trainer.save_model(str(args.output / "model"))
    if trainer.is_world_process_zero():
        document = {
            "worldSize": trainer.args.world_size,
            "threads": torch.get_num_threads(),
            "samplesPerStep": args.batch_size,
            "accuracy": accuracy,
            "steps": stamps.steps[args.warmup :],
        }
        args.report.write_text(json.dumps(document))


def _tokenized(args: argparse.Namespace, *, tokenizer: Any) -> Any:
    files = {"train": str(args.data), "eval": str(args.eval_data)}
    data = load_dataset("csv", data_files=files).class_encode_column("label").rename_column("label", "labels")
    padding = False if args.dynamic_padding else "max_length"

    def encode(rows: dict[str, Any]) -> Any:
        return tokenizer(rows["text"], padding=padding, truncation=True, max_length=args.length)

    return data.map(encode, batched=True).remove_columns("text")


def _training_arguments(args: argparse.Namespace) -> TrainingArguments:
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    options: dict[str, Any] = {"optim": args.optimizer} if args.optimizer else {}
    if args.dynamic_padding:
        options["train_sampling_strategy"] = "group_by_length"
    return TrainingArguments(
        output_dir=str(args.output),
        per_device_train_batch_size=args.batch_size // world_size,
        num_train_epochs=1,
        max_steps=args.max_steps,
        learning_rate=1e-4,
        bf16=args.bf16,
        use_cpu=True,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        **options,
    )


def _accuracy(prediction: Any) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="CSV file with the columns text and label")
    parser.add_argument("--eval-data", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--length", type=int, default=128, help="tokens of a text")
    parser.add_argument("--batch-size", type=int, default=16, help="of all ranks together")
    parser.add_argument("--max-steps", type=int, default=-1, help="-1: one epoch")
    parser.add_argument("--warmup", type=int, default=4, help="steps that are not reported")
    parser.add_argument("--evaluate", action="store_true")
    parser.add_argument("--dynamic-padding", action="store_true", help="pad to the longest of a batch")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--optimizer", help="a name that Trainer knows; unset: its default")
    return parser.parse_args()


if __name__ == "__main__":
    main()
