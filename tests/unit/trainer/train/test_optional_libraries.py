"""oneCCL's binding and Intel's extension: versions are compared before anything of theirs is imported."""

from __future__ import annotations

import importlib
import importlib.metadata

import pytest


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
    ("versions", "text"),
    [
        ({"torch": "2.8.0"}, "its binding for torch is not installed"),
        ({"torch": "2.15.0+cpu", "oneccl_bind_pt": "2.8.0"}, "was built for another torch"),
        (
            {"torch": "2.8.1", "oneccl-bind-pt": "2.8.0+cpu"},
            "does not load: oneccl_bindings_for_pytorch was imported",
        ),
    ],
    ids=["absent", "other-torch", "fits"],
)
def test_ccl_is_imported_only_where_it_fits(
    installed: dict[str, str], versions: dict[str, str], text: str
) -> None:
    """A binding built for another torch can kill the process, so it is never imported."""
    from xeontrain_trainer.train import backend

    installed.update(versions)
    assert text in str(backend._load_ccl())


@pytest.mark.parametrize(
    ("versions", "text"),
    [
        ({"torch": "2.8.0"}, "it is not installed"),
        ({"torch": "2.15.0+cpu", "intel_extension_for_pytorch": "2.8.0"}, "version 2.8.0 was built for"),
    ],
    ids=["absent", "other-torch"],
)
def test_ipex_says_why_it_is_not_used(installed: dict[str, str], versions: dict[str, str], text: str) -> None:
    """A job that asks for the extension where it does not fit trains without it, with the reason."""
    import torch
    from xeontrain_trainer.train import ipex

    installed.update(versions)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    same_model, same_optimizer, problem = ipex.optimize(model, optimizer, dtype=torch.float32)
    assert (same_model, same_optimizer) == (model, optimizer)
    assert text in str(problem)
