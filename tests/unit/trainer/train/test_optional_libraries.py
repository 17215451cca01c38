"""Intel's extension: versions are compared before anything of it is imported."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
from pathlib import Path

import pytest
from xeontrain_trainer import contract

from tests.unit.trainer.train import test_run
from tests.unit.trainer.train.ranks import succeeded


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Distribution -> version, as if these were installed; importing one of them fails the test."""
    import torch  # noqa: F401  (its real import must not see the versions below)

    versions: dict[str, str] = {}

    def version(name: str) -> str:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    def import_module(name: str, package: str | None = None) -> object:
        raise ImportError(f"{name} was imported")

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(importlib, "import_module", import_module)
    return versions


@pytest.mark.parametrize(
    ("extension", "torch", "problem"),
    [
        (None, "2.8.0", "it is not installed in this image"),
        ("2.8.0", "2.8.0", None),
        ("2.8.0", "2.8.1+cpu", None),
        ("2.8.0+cpu", "2.8.0", None),
        ("2.8.0", "2.15.0+cpu", "version 2.8.0 works with torch 2.8 alone, this image has 2.15.0+cpu"),
        ("2.8.0", "2.80.0", "version 2.8.0 works with torch 2.8 alone, this image has 2.80.0"),
        ("2.7.0", "2.8.0", "version 2.7.0 works with torch 2.7 alone, this image has 2.8.0"),
        ("2.6.0", "2.8.0", "version 2.6.0 works with torch 2.6 alone, this image has 2.8.0"),
    ],
)
def test_pairs_of_ipex_and_torch(
    installed: dict[str, str], extension: str | None, torch: str, problem: str | None
) -> None:
    """Only the extension that was built for this torch is ever imported: another ends the process."""
    from xeontrain_trainer.train import ipex

    installed.update({"torch": torch, **({"intel_extension_for_pytorch": extension} if extension else {})})
    assert ipex.misfit() == problem


@pytest.mark.parametrize("removed", [True, False], ids=["transformers-5.24", "transformers-5.23"])
def test_a_module_that_transformers_removed_is_stood_in_for(
    monkeypatch: pytest.MonkeyPatch, removed: bool
) -> None:
    """The extension imports names of it, and fails in an odd place where it is gone; a real one stays."""
    from xeontrain_trainer.train import ipex

    name = "transformers.modeling_attn_mask_utils"
    spec = None if removed else importlib.machinery.ModuleSpec(name, loader=None)
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)
    ipex._stand_in_for_masks()
    module = sys.modules.pop(name, None)
    assert (module is not None) is removed
    if module is not None:
        with pytest.raises(NotImplementedError, match="no longer in transformers"):
            module._prepare_4d_causal_attention_mask()


def test_a_job_that_insists_on_ipex_is_told_why_not() -> None:
    """Enabled is not quietly something else: cause and remedy."""
    from xeontrain_trainer.train import ipex
    from xeontrain_trainer.train.errors import BadConfigError

    ipex.insist(None)
    with pytest.raises(
        BadConfigError, match=r"^spec.training.ipex: it is Enabled, but .*: not there\. Write "
    ):
        ipex.insist("not there")


@pytest.mark.torch
def test_a_run_that_insists_on_ipex_ends_where_it_is_not(tiny_model: Path, tmp_path: Path) -> None:
    """All ranks end with the user's error, before a step. Not run where the extension is installed."""
    training = {**test_run.job(tiny_model, tmp_path), "ipex": "Enabled"}
    assert succeeded(test_run.run(tmp_path, training)) == [contract.EXIT_BAD_CONFIG] * 2
    message = test_run.error_of(tmp_path, 1)
    assert message.startswith(
        "spec.training.ipex: it is Enabled, but Intel Extension for PyTorch cannot be used"
    )
    assert not (tmp_path / "progress.jsonl").exists()
