"""How the launcher gets into the trainer container: by the image, or as one file from the operator's image.

The rule (docs/adr/0010): a `command` in an `image` of the user's own gets the operator's copy, so that such
an image needs Python and nothing of ours. The trainer image, and what is built on it for `training`, brings
its own.
"""

from __future__ import annotations

from typing import Any, Final

from xeontrain_operator.api.v1alpha1 import XeonTrainJob
from xeontrain_operator.builders.security import trainer_security_context
from xeontrain_operator.constants import LAUNCHER_CONTAINER, LAUNCHER_DIR
from xeontrain_operator.settings import Settings

LAUNCHER_VOLUME: Final = "xeontrain-launcher"
FILE_IN_IMAGE: Final = "/opt/xeontrain/launcher.pyz"
"""Where Dockerfile.operator puts it."""
FILE_IN_POD: Final = f"{LAUNCHER_DIR}/launcher.pyz"

# Isolated and without site: what the user's PYTHONPATH or site-packages hold is for the ranks.
INJECTED_COMMAND: Final = ("python3", "-I", "-S", FILE_IN_POD, "--")
OWN_COMMAND: Final = ("python3", "-m", "xeontrain_trainer.launcher", "--")

# Less than a CPU, so that the kubelet takes none out of the shared pool for it; no more than the trainer has,
# so that the pod asks the scheduler for no more; enough for a container runtime to start a process in it.
_QUANTITIES: Final = {"cpu": "100m", "memory": "64Mi"}


def is_injected(job: XeonTrainJob) -> bool:
    """Whether the pod's launcher is the operator's copy."""
    return job.spec.command is not None and job.spec.image is not None


def launcher_command(job: XeonTrainJob) -> list[str]:
    """Process 1 of the trainer container, up to the command that each rank runs."""
    return list(INJECTED_COMMAND if is_injected(job) else OWN_COMMAND)


def launcher_volumes(job: XeonTrainJob) -> list[dict[str, Any]]:
    """The scratch volume that carries the copy."""
    return [{"name": LAUNCHER_VOLUME, "emptyDir": {}}] if is_injected(job) else []


def launcher_mounts(job: XeonTrainJob) -> list[dict[str, Any]]:
    """Read-only for the trainer: a container that is started again needs the copy as it was."""
    mount = {"name": LAUNCHER_VOLUME, "mountPath": LAUNCHER_DIR, "readOnly": True}
    return [mount] if is_injected(job) else []


def init_containers(job: XeonTrainJob, *, settings: Settings) -> list[dict[str, Any]]:
    """What copies the launcher. Its requests equal its limits, or the pod would not be Guaranteed."""
    if not is_injected(job):
        return []
    container: dict[str, Any] = {
        "name": LAUNCHER_CONTAINER,
        "image": settings.launcher_image,
        "command": ["cp", FILE_IN_IMAGE, FILE_IN_POD],
        "resources": {"requests": dict(_QUANTITIES), "limits": dict(_QUANTITIES)},
        "volumeMounts": [{"name": LAUNCHER_VOLUME, "mountPath": LAUNCHER_DIR}],
        "securityContext": trainer_security_context(job),
    }
    policy = settings.launcher_image_pull_policy
    return [container if policy is None else {**container, "imagePullPolicy": policy}]
