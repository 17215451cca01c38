"""Which communication library the group uses: oneCCL where every rank can load it, else Gloo."""

from __future__ import annotations

import importlib
import importlib.metadata
from dataclasses import dataclass

from torch.distributed import Store  # type: ignore[attr-defined]

from .environment import Environment
from .errors import BadConfigError

# oneCCL's binding for torch; its version is that of the torch it was built for.
_DISTRIBUTIONS = ("oneccl_bind_pt", "oneccl-bind-pt")
_MODULE = "oneccl_bindings_for_pytorch"


@dataclass(frozen=True)
class Backend:
    """`name` as torch knows it; `reason` why it was chosen, in a sentence for people."""

    name: str
    reason: str

    @property
    def label(self) -> str:
        """As the status shows it."""
        return {"gloo": "Gloo", "ccl": "CCL"}[self.name]


def agree_backend(store: Store, *, environment: Environment) -> Backend:
    """The backend that all ranks can use, agreed over the store before there is a group.

    Raises BadConfigError where `distributed.backend` is CCL and a rank cannot load oneCCL.
    """
    if environment.backend == "Gloo":
        return Backend("gloo", "distributed.backend is Gloo")
    problem = _load_ccl()
    if problem:
        store.add("xeontrain/backend/without", 1)
    _arrive(store, "xeontrain/backend/asked", world_size=environment.world_size, wait=True)
    without = store.add("xeontrain/backend/without", 0)
    # The store ends with rank 0, so rank 0 does not go on before all others have read.
    _arrive(store, "xeontrain/backend/read", world_size=environment.world_size, wait=environment.is_main)
    if not without:
        return Backend("ccl", "oneCCL's binding loads in all ranks")
    reason = f"{without} of {environment.world_size} ranks cannot use oneCCL: {problem or 'see their logs'}"
    if environment.backend == "CCL":
        raise BadConfigError(
            "spec.distributed.backend",
            cause=reason,
            remedy="Write Gloo or Auto, or use an image that has oneCCL's binding for its version of torch",
        )
    return Backend("gloo", reason)


def _arrive(store: Store, name: str, *, world_size: int, wait: bool) -> None:
    """Count this rank as one that came to `name`; where `wait` is set, go on when all have."""
    if store.add(name, 1) == world_size:
        store.set(f"{name}/all", "1")
    if wait:
        store.wait([f"{name}/all"])


def _load_ccl() -> str | None:
    """Load oneCCL's binding; None if that worked, else why not.

    Its version is compared first: loading one that was built for another torch can kill the process.
    """
    version = _version_of(*_DISTRIBUTIONS)
    if version is None:
        return "its binding for torch is not installed"
    torch_version = importlib.metadata.version("torch")
    if _minor(version) != _minor(torch_version):
        return f"its binding {version} was built for another torch than {torch_version}"
    try:
        importlib.import_module(_MODULE)
    except Exception as error:  # a broken native library shows in many ways
        return f"its binding does not load: {error}"
    return None


def _version_of(*distributions: str) -> str | None:
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _minor(version: str) -> list[str]:
    return version.split("+")[0].split(".")[:2]
