"""A tiny job of each task: real files of made-up rows, from which something can be learned."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.unit.trainer.train import tiny

SPAM = set(tiny.WORDS["spam"])


@dataclass(frozen=True)
class Models:
    """Folders of tiny models: one that reads text, one that writes it, one that sees."""

    bert: Path
    gpt: Path
    resnet: Path


def job(task: str, *, models: Models, folder: Path, train: int = 40, evaluate: int = 37) -> dict[str, Any]:
    """The training block of a job with so many rows, whose files are written into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    return _JOBS[task](models, folder, {"train": train, "eval": evaluate})


def _classify_text(models: Models, folder: Path, counts: Mapping[str, int]) -> dict[str, Any]:
    files = {
        split: [tiny.write_csv(folder / f"{split}.csv", tiny.rows(count, seed=seed))]
        for seed, (split, count) in enumerate(counts.items())
    }
    return _block("text-classification", models.bert, files, columns={"text": "text", "label": "label"})


def _classify_tokens(models: Models, folder: Path, counts: Mapping[str, int]) -> dict[str, Any]:
    files = {
        split: [write_lines(folder / f"{split}.jsonl", map(tagged, _texts(count, seed=seed)))]
        for seed, (split, count) in enumerate(counts.items())
    }
    return _block("token-classification", models.bert, files, learningRate=1e-2)


def _answer(models: Models, folder: Path, counts: Mapping[str, int]) -> dict[str, Any]:
    files = {
        split: [write_lines(folder / f"{split}.jsonl", map(asked, _texts(count, seed=seed)))]
        for seed, (split, count) in enumerate(counts.items())
    }
    return _block("question-answering", models.bert, files, learningRate=1e-2)


def _continue(models: Models, folder: Path, counts: Mapping[str, int]) -> dict[str, Any]:
    files = {
        split: [
            write_lines(folder / f"{split}.jsonl", ({"text": text} for text in _texts(count // 2, seed=seed)))
        ]
        for seed, (split, count) in enumerate(counts.items())
    }
    return _block("causal-language-modeling", models.gpt, files, maxLength=10)


def _classify_images(models: Models, folder: Path, counts: Mapping[str, int]) -> dict[str, Any]:
    for seed, (split, count) in enumerate(counts.items()):
        write_images(folder / split, count=count, seed=seed)
    files = {split: [str(folder / split)] for split in counts}
    return _block("image-classification", models.resnet, files, learningRate=1e-3)


_JOBS: Mapping[str, Callable[[Models, Path, Mapping[str, int]], dict[str, Any]]] = {
    "text-classification": _classify_text,
    "token-classification": _classify_tokens,
    "question-answering": _answer,
    "causal-language-modeling": _continue,
    "image-classification": _classify_images,
}
TASKS = tuple(_JOBS)


def tagged(text: str) -> dict[str, list[str]]:
    """The words of a text; those of spam are entities, words in a row one entity."""
    words, tags = text.split(), []
    for word in words:
        tags.append("O" if word not in SPAM else "I-BAIT" if tags[-1:] not in ([], ["O"]) else "B-BAIT")
    return {"tokens": words, "tags": tags}


def asked(text: str) -> dict[str, Any]:
    """A question for the first word of spam, which a text without one does not answer."""
    found = next((word for word in text.split() if word in SPAM), None)
    answers = [(found, text.index(found))] if found else []
    texts, starts = [word for word, _ in answers], [start for _, start in answers]
    return {"question": "free offer", "context": text, "answers": {"text": texts, "answer_start": starts}}


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> str:
    """Write JSON lines and return the file's path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def write_images(folder: Path, *, count: int, seed: int) -> None:
    """`count` images of several sizes, alternately reddish and bluish, in a folder for each colour."""
    import numpy as np
    from PIL import Image

    chance = np.random.default_rng(seed)
    for number in range(count):
        height, width = chance.integers(8, 40, size=2)
        pixels = chance.integers(0, 200, size=(height, width, 3), dtype=np.uint8)
        pixels[..., 2 * (number % 2)] += 55
        path = folder / ("red", "blue")[number % 2] / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)


def _texts(count: int, *, seed: int) -> list[str]:
    """Texts of 1 to 40 words, so that some are longer than the model takes at once."""
    chance = random.Random(seed)
    words = tiny.COMMON + tiny.WORDS["ham"] + tiny.WORDS["spam"][:1]
    return [" ".join(chance.choices(words, k=chance.randint(1, 40))) for _ in range(count)]


def _block(
    task: str,
    model: Path,
    files: Mapping[str, list[str]],
    *,
    columns: Mapping[str, str] | None = None,
    **hyperparameters: Any,
) -> dict[str, Any]:
    block = tiny.training(model, train=files["train"], evaluate=files["eval"], **hyperparameters)
    return {**block, "task": task, "dataset": {"files": dict(files), "columns": dict(columns or {})}}
