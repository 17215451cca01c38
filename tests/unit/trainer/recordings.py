"""Where recorded machines are: not part of this repository, read from beside it at test time.

XEONTRAIN_TOPOLOGIES names the folder with the archives of hwloc's and util-linux's test suites, by default
`../shared/data/topologies` beside the repository. Generated machines of the same shapes run everywhere.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(
    os.environ.get("XEONTRAIN_TOPOLOGIES")
    or Path(__file__).resolve().parents[4] / "shared" / "data" / "topologies"
)
needs_recordings = pytest.mark.skipif(
    not FOLDER.is_dir() and "XEONTRAIN_TOPOLOGIES" not in os.environ,
    reason=f"no recordings in {FOLDER}: set XEONTRAIN_TOPOLOGIES to a folder that holds them",
)
