"""The models of xeontrain.dev/v1alpha1: frozen, described, bounded; the CRD is generated from them."""

from xeontrain_operator.api.errors import InvalidJobError
from xeontrain_operator.api.v1alpha1.core import (
    EnvFrom,
    EnvSource,
    EnvVar,
    LocalObjectReference,
    Toleration,
    VolumeMount,
)
from xeontrain_operator.api.v1alpha1.job import Metadata, XeonTrainJob, parse_job
from xeontrain_operator.api.v1alpha1.placement import Placement
from xeontrain_operator.api.v1alpha1.policy import (
    Ccl,
    Checkpoint,
    Distributed,
    PodTemplate,
    RunPolicy,
    Storage,
)
from xeontrain_operator.api.v1alpha1.quantity import cpu_millis, memory_bytes
from xeontrain_operator.api.v1alpha1.spec import Resources, XeonTrainJobSpec
from xeontrain_operator.api.v1alpha1.status import (
    Condition,
    CpuStatus,
    Phase,
    ProgressStatus,
    RestartsStatus,
    ResultStatus,
    TriState,
    UsageStatus,
    WorkersStatus,
    WorkerStatus,
    XeonTrainJobStatus,
)
from xeontrain_operator.api.v1alpha1.training import (
    Columns,
    DataFiles,
    Dataset,
    HubDataset,
    Hyperparameters,
    Training,
)

__all__ = [
    "Ccl",
    "Checkpoint",
    "Columns",
    "Condition",
    "CpuStatus",
    "DataFiles",
    "Dataset",
    "Distributed",
    "EnvFrom",
    "EnvSource",
    "EnvVar",
    "HubDataset",
    "Hyperparameters",
    "InvalidJobError",
    "LocalObjectReference",
    "Metadata",
    "Phase",
    "Placement",
    "PodTemplate",
    "ProgressStatus",
    "Resources",
    "RestartsStatus",
    "ResultStatus",
    "RunPolicy",
    "Storage",
    "Toleration",
    "Training",
    "TriState",
    "UsageStatus",
    "VolumeMount",
    "WorkerStatus",
    "WorkersStatus",
    "XeonTrainJob",
    "XeonTrainJobSpec",
    "XeonTrainJobStatus",
    "cpu_millis",
    "memory_bytes",
    "parse_job",
]
