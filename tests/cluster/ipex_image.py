"""The trainer image with Intel's extension: builds it, and trains a little in it with the extension.

`python -m tests.cluster.ipex_image`. Not part of the tests: with PyPI's torch, which brings CUDA's libraries,
the image takes minutes and gigabytes. Its Python set is what `make ipex-tests` runs in.
"""

from __future__ import annotations

import json
import sys

from tests.cluster import requirements, settings
from tests.cluster.errors import ClusterError
from tests.cluster.images import Images


def main() -> int:
    """Build, train, and print what the ranks decided and how far they came."""
    try:
        requirements.require_nodes()
        images = Images()
        name = images.build("trainer-ipex")
        said = images.store.run(
            name,
            "env",
            "PYTHONPATH=/src",
            "GLOO_SOCKET_IFNAME=lo",
            "python3",
            "-m",
            "tests.cluster.train_a_little",
            source=settings.REPOSITORY,
        )
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    first, last = (json.loads(line) for line in said.splitlines()[-2:])
    print(name, first, last, sep="\n")
    return 0 if first.get("ipexUsed") and last.get("step") == last.get("totalSteps") else 1


if __name__ == "__main__":
    sys.exit(main())
