"""A stand-in for oneCCL's binding, which PyPI does not have: it registers a backend `ccl` with torch.

The backend is gloo under another name, so that a run over it is a real one. As the real binding it is found
by its distribution's version, and notes the environment that it finds when it is imported.
"""

from __future__ import annotations

from pathlib import Path

# What its import does, by the case that a test wants.
WORKS = """
import json, os
import torch.distributed as dist

def _make(store, rank, size, timeout):
    return dist.ProcessGroupGloo(store, rank, size, timeout)

dist.Backend.register_backend("ccl", _make, devices=["cpu"])
seen = {name: value for name, value in os.environ.items() if name.startswith(("CCL_", "FI_"))}
with open(os.path.join(os.path.dirname(__file__), f"seen-{os.environ['RANK']}.json"), "w") as file:
    json.dump(seen, file)
"""
LACKS_A_LIBRARY = "raise ImportError('libccl.so.1: cannot open shared object file')"
KILLS = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"


def install(site: Path, *, version: str, module: str = WORKS) -> str:
    """Make a site folder with the binding of this version; returns it, as an item of PYTHONPATH."""
    package = site / "oneccl_bindings_for_pytorch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(module)
    info = site / f"oneccl_bind_pt-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: oneccl_bind_pt\nVersion: {version}\n")
    return str(site)
