"""`spec.placement`: on which nodes the pods run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from xeontrain_operator.api.v1alpha1.base import ATOMIC, SET, KubeObject, LabelMap, Model, ObjectName
from xeontrain_operator.api.v1alpha1.core import Toleration

CpuGeneration = Literal["IceLake", "SapphireRapids", "EmeraldRapids", "GraniteRapids"]
CpuFeature = Literal["AVX512F", "AVX512VNNI", "AVX512BF16", "AMXBF16", "AMXINT8"]


class Placement(Model):
    """On which nodes the pods run. All of it is merged, nothing replaces anything else."""

    cpu_generations: Annotated[tuple[CpuGeneration, ...], Field(max_length=4, json_schema_extra=SET)] = ()
    """Any of these Xeon generations, by the labels of Node Feature Discovery."""
    cpu_features: Annotated[tuple[CpuFeature, ...], Field(max_length=5, json_schema_extra=SET)] = ()
    """All of these instruction sets, by the labels of Node Feature Discovery."""
    instance_types: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=63)], ...],
        Field(max_length=32, json_schema_extra=SET),
    ] = ()
    """Any of these instance types of the cloud, such as m7i.8xlarge."""
    capacity_type: Literal["Any", "OnDemand", "Spot"] = "Any"
    """Whether spot capacity is meant (EKS, Karpenter, GKE, AKS)."""
    spread: Literal["OnePerNode", "Packed"] = "OnePerNode"
    """OnePerNode: each worker on a node of its own. Packed: as few nodes as hold them."""
    node_selector: Annotated[LabelMap, Field(max_length=32)] = Field(default_factory=dict)
    """Labels that the nodes must have."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32, json_schema_extra=ATOMIC)] = ()
    """Taints that the pods tolerate."""
    affinity: KubeObject | None = None
    """Affinity as in a pod."""
    priority_class_name: ObjectName | None = None
    """Priority class of the pods."""
    scheduler_name: ObjectName | None = None
    """Scheduler of the pods; the cluster's default where unset."""
    node_lost_seconds: Annotated[int, Field(ge=0, le=86_400)] = 60
    """How long a node may be unreachable before its worker is replaced."""
