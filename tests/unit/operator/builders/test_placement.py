"""Placement: each way of choosing nodes becomes what the scheduler understands; none replaces another."""

from __future__ import annotations

from typing import Any

import pytest
from xeontrain_operator.builders.placement import choose_nodes, selector_conflicts

from tests.unit.operator.sample import SETTINGS, UID, job

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NFD = "feature.node.kubernetes.io"


def _terms(placement: dict[str, Any]) -> list[Any]:
    affinity = choose_nodes(job(spec={"placement": placement}), settings=SETTINGS).affinity
    return affinity.get("nodeAffinity", {}).get(REQUIRED, {}).get("nodeSelectorTerms", [])


def _in(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


@pytest.mark.parametrize(
    ("placement", "expressions"),
    [
        (
            {"cpuGenerations": ["SapphireRapids", "GraniteRapids"]},
            [
                _in(f"{NFD}/cpu-model.vendor_id", "Intel"),
                _in(f"{NFD}/cpu-model.family", "6"),
                _in(f"{NFD}/cpu-model.id", "143", "173", "174"),
            ],
        ),
        (
            {"cpuFeatures": ["AMXBF16", "AVX512VNNI"]},
            [_in(f"{NFD}/cpu-cpuid.AMXBF16", "true"), _in(f"{NFD}/cpu-cpuid.AVX512VNNI", "true")],
        ),
        (
            {"instanceTypes": ["m7i.8xlarge", "m8i.8xlarge"]},
            [_in("node.kubernetes.io/instance-type", "m7i.8xlarge", "m8i.8xlarge")],
        ),
    ],
    ids=["generations-any", "features-all", "instance-types-any"],
)
def test_hardware_becomes_one_term(placement: dict[str, Any], expressions: list[Any]) -> None:
    """Any of the generations and types, all of the features: expressions of one term, which are ANDed."""
    assert _terms(placement) == [{"matchExpressions": expressions}]


def test_spot_is_any_clouds_label_beside_the_other_demands() -> None:
    """One term a cloud, each with the demand for the instance type: terms are ORed."""
    terms = _terms({"capacityType": "Spot", "instanceTypes": ["m7i.8xlarge"]})
    kind = _in("node.kubernetes.io/instance-type", "m7i.8xlarge")
    labels = [
        _in("eks.amazonaws.com/capacityType", "SPOT"),
        _in("karpenter.sh/capacity-type", "spot"),
        _in("cloud.google.com/gke-spot", "true"),
        _in("cloud.google.com/gke-preemptible", "true"),
        _in("kubernetes.azure.com/scalesetpriority", "spot"),
    ]
    assert terms == [{"matchExpressions": [kind, label]} for label in labels]


def test_on_demand_excludes_each_clouds_spot_label() -> None:
    """NotIn also matches nodes that lack the label; all of them stand in one term."""
    (term,) = _terms({"capacityType": "OnDemand"})
    assert {(e["key"], e["operator"]) for e in term["matchExpressions"]} == {
        ("eks.amazonaws.com/capacityType", "NotIn"),
        ("karpenter.sh/capacity-type", "NotIn"),
        ("cloud.google.com/gke-spot", "NotIn"),
        ("cloud.google.com/gke-preemptible", "NotIn"),
        ("kubernetes.azure.com/scalesetpriority", "NotIn"),
    }


@pytest.mark.parametrize(
    ("capacity", "tolerated"), [("Any", True), ("Spot", True), ("OnDemand", False)], ids=str
)
def test_spot_taints(capacity: str, tolerated: bool) -> None:
    """Spot nodes of AKS are tainted: only OnDemand leaves the taint untolerated."""
    nodes = choose_nodes(job(spec={"placement": {"capacityType": capacity}}), settings=SETTINGS)
    keys = {toleration.get("key") for toleration in nodes.tolerations}
    assert ("kubernetes.azure.com/scalesetpriority" in keys) is tolerated


def test_spread_one_per_node_is_a_requirement_by_uid() -> None:
    """By the UID: pods of a job that bore the same name before do not keep this one's away."""
    affinity = choose_nodes(job(), settings=SETTINGS).affinity
    assert affinity == {
        "podAntiAffinity": {
            REQUIRED: [
                {
                    "labelSelector": {"matchLabels": {"xeontrain.dev/job-uid": UID}},
                    "topologyKey": "kubernetes.io/hostname",
                }
            ]
        }
    }


def test_packed_is_a_preference() -> None:
    """Packed workers share nodes where they fit and are placed all the same where they do not."""
    affinity = choose_nodes(job(spec={"placement": {"spread": "Packed"}}), settings=SETTINGS).affinity
    assert list(affinity) == ["podAffinity"]
    assert list(affinity["podAffinity"]) == [PREFERRED]


def test_pool_and_placement_are_both_asked_for() -> None:
    """Selector, tolerations and affinity of the user stand beside the pool's."""
    placement = {
        "nodeSelector": {"disk": "nvme"},
        "tolerations": [{"key": "batch", "operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [_in("zone", "a")]},
                        {"matchExpressions": [_in("zone", "b")]},
                    ]
                }
            },
            "podAntiAffinity": {REQUIRED: [{"topologyKey": "rack"}]},
        },
        "cpuFeatures": ["AVX512F"],
        "capacityType": "OnDemand",
    }
    nodes = choose_nodes(job(spec={"nodePool": "xeon", "placement": placement}), settings=SETTINGS)
    assert nodes.node_selector == {"pool": "xeon", "disk": "nvme"}
    assert [t["key"] for t in nodes.tolerations] == [
        "xeon",
        "batch",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    terms = nodes.affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert [term["matchExpressions"][-1] for term in terms] == [_in("zone", "a"), _in("zone", "b")]
    assert all(_in(f"{NFD}/cpu-cpuid.AVX512F", "true") in term["matchExpressions"] for term in terms)
    hosts = [term["topologyKey"] for term in nodes.affinity["podAntiAffinity"][REQUIRED]]
    assert hosts == ["kubernetes.io/hostname", "rack"]


def test_node_loss_is_tolerated_for_the_asked_time_unless_the_user_says_otherwise() -> None:
    """`nodeLostSeconds` for both taints of a node in trouble; a user's own toleration replaces ours."""
    own = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    placement = {"nodeLostSeconds": 30, "capacityType": "OnDemand", "tolerations": [own]}
    nodes = choose_nodes(job(spec={"placement": placement}), settings=SETTINGS)
    trouble = {t["key"]: t.get("tolerationSeconds") for t in nodes.tolerations}
    assert trouble == {"node.kubernetes.io/unreachable": None, "node.kubernetes.io/not-ready": 30}


def test_conflicting_labels_are_named() -> None:
    """A label cannot have two values: said in words, where a merge would let one side win in silence."""
    conflicting = job(spec={"nodePool": "xeon", "placement": {"nodeSelector": {"pool": "gpu"}}})
    (conflict,) = selector_conflicts(conflicting, settings=SETTINGS)
    assert "'xeon' in node pool xeon" in conflict
    assert "'gpu' in spec.placement.nodeSelector" in conflict
    same = job(spec={"nodePool": "xeon", "placement": {"nodeSelector": {"pool": "xeon"}}})
    assert selector_conflicts(same, settings=SETTINGS) == []
