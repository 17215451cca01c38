"""Which communication library the group uses: oneCCL where every rank can load it, else Gloo."""

from __future__ import annotations

import importlib
import importlib.metadata
from dataclasses import dataclass

from torch.distributed import Store  # type: ignore[attr-defined]

from .environment import Environment
from .errors import BadConfigError
from .torch_builds import minor, version_of, why_not_loaded
from .trial import how_it_fails

# oneCCL's binding for torch; its version is that of the torch it was built for.
_DISTRIBUTIONS = ("oneccl_bind_pt", "oneccl-bind-pt")
_MODULE = "oneccl_bindings_for_pytorch"
_IMPORT_SECONDS = 60.0
_KEY = "xeontrain/backend"


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
    if environment.backend == "Auto" and environment.world_size == 1:
        return Backend("gloo", "a rank alone has nobody to talk to")
    without, problem = _agree(store, _load_ccl(), environment=environment)
    if not without:
        return Backend("ccl", "oneCCL's binding loads in all ranks")
    reason = f"{without} of {environment.world_size} ranks cannot use oneCCL: {problem}"
    if environment.backend == "CCL":
        raise BadConfigError(
            "spec.distributed.backend",
            cause=reason,
            remedy="Write Gloo or Auto, or use an image that has oneCCL's binding for its version of torch",
        )
    return Backend("gloo", reason)


def _agree(store: Store, problem: str | None, *, environment: Environment) -> tuple[int, str]:
    """(how many ranks have a problem, the problem of one of them): the same in all ranks."""
    if problem and store.add(f"{_KEY}/without", 1) == 1:
        store.set(f"{_KEY}/problem", f"{problem} (rank {environment.rank})")
    _arrive(store, f"{_KEY}/asked", world_size=environment.world_size, wait=True)
    without = store.add(f"{_KEY}/without", 0)
    first = store.get(f"{_KEY}/problem").decode() if without else ""
    # The store ends with rank 0, so rank 0 does not go on before all others have read.
    _arrive(store, f"{_KEY}/read", world_size=environment.world_size, wait=environment.is_main)
    return without, first


def _arrive(store: Store, name: str, *, world_size: int, wait: bool) -> None:
    """Count this rank as one that came to `name`; where `wait` is set, go on when all have."""
    if store.add(name, 1) == world_size:
        store.set(f"{name}/all", "1")
    if wait:
        store.wait([f"{name}/all"])


def _load_ccl() -> str | None:
    """Load oneCCL's binding; None if that worked, else why not.

    Its version is compared first, and a child process tries: one that was built for another torch can kill
    the process that loads it.
    """
    version = version_of(*_DISTRIBUTIONS)
    if version is None:
        return "its binding for torch is not installed"
    torch_version = importlib.metadata.version("torch")
    if minor(version) != minor(torch_version):
        return f"its binding {version} was built for another torch than {torch_version}"
    failure = how_it_fails(_import_ccl, timeout_seconds=_IMPORT_SECONDS) or why_not_loaded(_import_ccl)
    return f"its binding {version} does not load: {failure}" if failure else None


def _import_ccl() -> None:
    importlib.import_module(_MODULE)
