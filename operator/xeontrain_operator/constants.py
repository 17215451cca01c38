"""The operator's half of docs/contract.md: names, paths, ports and exit codes.

`tests/contract/` holds this module, the trainer's contract module and the document equal.
"""

from __future__ import annotations

from typing import Final

CONTRACT_VERSION: Final = 1

# Set by the operator or by `xeontrain run`, read by the launcher.
ENV_CONTRACT_VERSION: Final = "XEONTRAIN_CONTRACT_VERSION"
ENV_JOB_NAME: Final = "XEONTRAIN_JOB_NAME"
ENV_JOB_NAMESPACE: Final = "XEONTRAIN_JOB_NAMESPACE"
ENV_JOB_UID: Final = "XEONTRAIN_JOB_UID"
ENV_POD_NAME: Final = "XEONTRAIN_POD_NAME"
ENV_POD_UID: Final = "XEONTRAIN_POD_UID"
ENV_POD_IP: Final = "XEONTRAIN_POD_IP"
ENV_NODE_NAME: Final = "XEONTRAIN_NODE_NAME"
ENV_WORKER: Final = "XEONTRAIN_WORKER"
ENV_WORKERS: Final = "XEONTRAIN_WORKERS"
ENV_RANKS_PER_WORKER: Final = "XEONTRAIN_RANKS_PER_WORKER"
ENV_GLOBAL_BATCH_SIZE: Final = "XEONTRAIN_GLOBAL_BATCH_SIZE"
ENV_COORDINATOR: Final = "XEONTRAIN_COORDINATOR"
ENV_COORDINATOR_PORT: Final = "XEONTRAIN_COORDINATOR_PORT"
ENV_LAUNCHER_PORT: Final = "XEONTRAIN_LAUNCHER_PORT"
ENV_MASTER_PORT: Final = "XEONTRAIN_MASTER_PORT"
ENV_RENDEZVOUS_TIMEOUT_SECONDS: Final = "XEONTRAIN_RENDEZVOUS_TIMEOUT_SECONDS"
ENV_BACKEND: Final = "XEONTRAIN_BACKEND"
ENV_INTERFACE: Final = "XEONTRAIN_INTERFACE"
ENV_CCL_WORKERS_PER_RANK: Final = "XEONTRAIN_CCL_WORKERS_PER_RANK"
ENV_CPU_LIMIT_MILLIS: Final = "XEONTRAIN_CPU_LIMIT_MILLIS"
ENV_PINNING: Final = "XEONTRAIN_PINNING"
ENV_BACKOFF_LIMIT: Final = "XEONTRAIN_BACKOFF_LIMIT"
ENV_FAILURES_COUNTED: Final = "XEONTRAIN_FAILURES_COUNTED"
ENV_GRACE_PERIOD_SECONDS: Final = "XEONTRAIN_GRACE_PERIOD_SECONDS"
ENV_STATE_DIR: Final = "XEONTRAIN_STATE_DIR"
ENV_JOB_DIR: Final = "XEONTRAIN_JOB_DIR"
ENV_TRAINING_FILE: Final = "XEONTRAIN_TRAINING_FILE"
ENV_TERMINATION_LOG: Final = "XEONTRAIN_TERMINATION_LOG"
ENV_TERMINATION_BYTES: Final = "XEONTRAIN_TERMINATION_BYTES"
ENV_PARK_ONLY: Final = "XEONTRAIN_PARK_ONLY"

# Set by the launcher in each rank, beside torchrun's own names.
ENV_ROUND: Final = "XEONTRAIN_ROUND"
ENV_PROGRESS_FILE: Final = "XEONTRAIN_PROGRESS_FILE"
ENV_METRICS_FILE: Final = "XEONTRAIN_METRICS_FILE"
ENV_STOP_FILE: Final = "XEONTRAIN_STOP_FILE"
ENV_PLAN_FILE: Final = "XEONTRAIN_PLAN_FILE"

# Refused in a job's `env`, because the launcher owns them (also every other XEONTRAIN_ name).
OWNED_ENV: Final = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "ROLE_NAME",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_ERROR_FILE",
    ENV_ROUND,
    ENV_PROGRESS_FILE,
    ENV_METRICS_FILE,
    ENV_STOP_FILE,
    ENV_PLAN_FILE,
)

STATE_DIR: Final = "/run/xeontrain"
TRAINING_DIR: Final = "/etc/xeontrain"
TRAINING_FILE: Final = "/etc/xeontrain/training.json"
STORAGE_DIR: Final = "/var/lib/xeontrain"
LAUNCHER_DIR: Final = "/run/xeontrain-launcher"
TERMINATION_LOG: Final = "/dev/termination-log"
TERMINATION_BYTES: Final = 4096

LAUNCHER_PORT: Final = 29400
MASTER_PORT: Final = 29500

EXIT_OK: Final = 0
EXIT_BAD_DATA: Final = 65
EXIT_MISSING_FILE: Final = 66
EXIT_STORAGE: Final = 74
EXIT_INTERRUPTED: Final = 75
EXIT_BAD_CONFIG: Final = 78
EXIT_LOSS_NOT_FINITE: Final = 79
EXIT_NOT_EXECUTABLE: Final = 126
EXIT_PROGRAM_NOT_FOUND: Final = 127

USER_ERROR_EXITS: Final = frozenset(
    {
        EXIT_BAD_DATA,
        EXIT_MISSING_FILE,
        EXIT_BAD_CONFIG,
        EXIT_LOSS_NOT_FINITE,
        EXIT_NOT_EXECUTABLE,
        EXIT_PROGRAM_NOT_FOUND,
    }
)

# The resource.
GROUP: Final = "xeontrain.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "XeonTrainJob"
PLURAL: Final = "xeontrainjobs"
SHORT_NAME: Final = "xtj"

# Labels and annotations of what the operator makes. Selectors hold the UID: a job made again under the
# same name must not select the old one's terminating pods.
LABEL_JOB_NAME: Final = f"{GROUP}/job-name"
LABEL_JOB_UID: Final = f"{GROUP}/job-uid"
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
LABEL_POD_INDEX: Final = "apps.kubernetes.io/pod-index"
ANNOTATION_TEMPLATE_HASH: Final = f"{GROUP}/template-hash"
# Written by the API server's LimitRanger plugin into a pod whose resources it fills in.
ANNOTATION_LIMIT_RANGER: Final = "kubernetes.io/limit-ranger"
MANAGED_BY: Final = "xeontrain-operator"
FIELD_MANAGER: Final = "xeontrain-operator"

CONTAINER_NAME: Final = "trainer"
# The initial container that copies the launcher into a pod with an image of the user's own.
LAUNCHER_CONTAINER: Final = "xeontrain-launcher"
PORT_NAME: Final = "launcher"

# A StatefulSet of more makes no pods: its revision label would pass 63 characters.
MAX_NAME_LENGTH: Final = 52
