"""A model, a tokenizer and data so small that training them takes milliseconds; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.trainer.train import tiny


@pytest.fixture(scope="session", autouse=True)
def hugging_face_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Caches of this run's own, and no network; set before a test imports a library that reads them once."""
    home = tmp_path_factory.mktemp("huggingface")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(home))
        patch.delenv("HF_HUB_CACHE", raising=False)
        patch.delenv("HF_DATASETS_CACHE", raising=False)
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("TOKENIZERS_PARALLELISM", "false")
        patch.setenv("OMP_NUM_THREADS", "1")
        yield home


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory, hugging_face_caches: Path) -> Path:
    """The folder of a BERT of two layers with a tokenizer of a few words."""
    folder = tmp_path_factory.mktemp("tiny-model")
    tiny.write_model(folder)
    return folder
