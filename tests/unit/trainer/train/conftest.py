"""A model, a tokenizer and data so small that training them takes milliseconds; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.trainer.train import jobs, tiny
from tools import hub_cache


@pytest.fixture(scope="session", autouse=True)
def hugging_face_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Caches of this run's own, and no network; set before a test imports a library that reads them once.

    Only models come from the machine's hub cache, which without a network is read and never written.
    """
    home = tmp_path_factory.mktemp("huggingface")
    models = hub_cache.default_cache()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(home))
        patch.setenv("HF_HUB_CACHE", str(models))
        patch.delenv("HF_DATASETS_CACHE", raising=False)
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("TOKENIZERS_PARALLELISM", "false")
        patch.setenv("OMP_NUM_THREADS", "1")
        yield home


@pytest.fixture(scope="session")
def tiny_models(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> jobs.Models:
    """The folders of tiny models of all kinds."""
    gpt, resnet = (tmp_path_factory.mktemp(name) for name in ("tiny-gpt", "tiny-resnet"))
    tiny.write_writer(gpt)
    tiny.write_seer(resnet)
    return jobs.Models(bert=tiny_model, gpt=gpt, resnet=resnet)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory, hugging_face_caches: Path) -> Path:
    """The folder of a BERT of two layers with a tokenizer of a few words."""
    folder = tmp_path_factory.mktemp("tiny-model")
    tiny.write_model(folder)
    return folder
