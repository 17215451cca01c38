"""On which nodes the pods run: pool and placement as node selector, affinity and tolerations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from xeontrain_operator.api.v1alpha1 import Placement, XeonTrainJob
from xeontrain_operator.builders.labels import selector_labels
from xeontrain_operator.builders.merge import merge_affinity, without_duplicates
from xeontrain_operator.settings import NodePool, Settings

HOSTNAME: Final = "kubernetes.io/hostname"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
_NFD: Final = "feature.node.kubernetes.io"

# CPUID model numbers (family 6) as Node Feature Discovery writes them: Ice Lake-SP and -D, Granite Rapids
# and -D share a name in `cpuGenerations`. Linux: arch/x86/include/asm/intel-family.h.
_CPU_MODELS: Final[Mapping[str, tuple[str, ...]]] = {
    "IceLake": ("106", "108"),
    "SapphireRapids": ("143",),
    "EmeraldRapids": ("207",),
    "GraniteRapids": ("173", "174"),
}

# Each cloud and autoscaler marks spot capacity with a label of its own.
_SPOT_LABELS: Final[tuple[tuple[str, str], ...]] = (
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("karpenter.sh/capacity-type", "spot"),
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
)
_SPOT_TAINTS: Final[tuple[tuple[str, str], ...]] = (
    ("kubernetes.azure.com/scalesetpriority", "spot"),
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("karpenter.sh/capacity-type", "spot"),
)
_NODE_TROUBLE: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass(frozen=True, kw_only=True)
class NodeChoice:
    """The parts of a pod's spec that choose its node."""

    node_selector: dict[str, str] = field(default_factory=dict)
    affinity: dict[str, Any] = field(default_factory=dict)
    tolerations: list[dict[str, Any]] = field(default_factory=list)


def choose_nodes(job: XeonTrainJob, *, settings: Settings) -> NodeChoice:
    """Everything that pool and placement ask for, at once. A pool that is not declared asks for nothing
    here: `selector_conflicts` and the reconcile refuse such a job before anything is built."""
    placement = job.spec.placement
    pool = node_pool(job, settings=settings) or NodePool()
    return NodeChoice(
        node_selector={**pool.node_selector, **placement.node_selector},
        affinity=merge_affinity(
            [_node_affinity(placement), _spread(job), placement.affinity or {}],
        ),
        tolerations=_tolerations(placement, pool),
    )


def node_pool(job: XeonTrainJob, *, settings: Settings) -> NodePool | None:
    """The pool that the job names, if it names one that is declared."""
    return settings.node_pools.get(job.spec.node_pool) if job.spec.node_pool else None


def selector_conflicts(job: XeonTrainJob, *, settings: Settings) -> list[str]:
    """Labels for which the pool and `placement.nodeSelector` ask for different values, in words."""
    pool = node_pool(job, settings=settings) or NodePool()
    asked = job.spec.placement.node_selector
    return [
        f"label {key} is {value!r} in node pool {job.spec.node_pool} and {asked[key]!r} in "
        "spec.placement.nodeSelector: leave one of them out"
        for key, value in pool.node_selector.items()
        if asked.get(key, value) != value
    ]


def _in(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def _node_affinity(placement: Placement) -> dict[str, Any]:
    expressions = [*_cpu_expressions(placement)]
    if placement.instance_types:
        expressions.append(_in(INSTANCE_TYPE, *placement.instance_types))
    if placement.capacity_type == "OnDemand":
        # NotIn also matches nodes without the label, which is what on-demand nodes mostly look like.
        expressions += [{**_in(key, value), "operator": "NotIn"} for key, value in _SPOT_LABELS]
    alternatives = (
        [[_in(key, value)] for key, value in _SPOT_LABELS] if placement.capacity_type == "Spot" else [[]]
    )
    terms = [{"matchExpressions": [*expressions, *also]} for also in alternatives if expressions or also]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"nodeAffinity": {required: {"nodeSelectorTerms": terms}}} if terms else {}


def _cpu_expressions(placement: Placement) -> list[dict[str, Any]]:
    expressions = [_in(f"{_NFD}/cpu-cpuid.{feature}", "true") for feature in placement.cpu_features]
    models = [model for generation in placement.cpu_generations for model in _CPU_MODELS[generation]]
    if models:
        expressions += [
            _in(f"{_NFD}/cpu-model.vendor_id", "Intel"),
            _in(f"{_NFD}/cpu-model.family", "6"),
            _in(f"{_NFD}/cpu-model.id", *models),
        ]
    return expressions


def _spread(job: XeonTrainJob) -> dict[str, Any]:
    term = {
        "labelSelector": {"matchLabels": selector_labels(job.metadata)},
        "topologyKey": HOSTNAME,
    }
    if job.spec.placement.spread == "OnePerNode":
        return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _tolerations(placement: Placement, pool: NodePool) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = [
        *(dict(toleration) for toleration in pool.tolerations),
        *(toleration.to_dict() for toleration in placement.tolerations),
    ]
    if placement.capacity_type != "OnDemand":
        asked += [
            {"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}
            for key, value in _SPOT_TAINTS
        ]
    # Kubernetes' own default is 300 s; whoever writes a toleration of these taints has decided otherwise.
    asked += [
        {
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": placement.node_lost_seconds,
        }
        for key in _NODE_TROUBLE
        if all(toleration.get("key") != key for toleration in asked)
    ]
    return without_duplicates(asked)
