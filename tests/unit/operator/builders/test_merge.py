"""Merging: what either side asks for is asked for by the result, and nothing else is."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xeontrain_operator.builders.merge import (
    and_terms,
    deep_merge,
    merge_affinity,
    merge_named,
    without_duplicates,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

_keys = st.sampled_from(["zone", "type", "cpu"])
_values = st.sampled_from(["a", "b", "c"])
_expressions = st.builds(
    lambda key, operator, values: {"key": key, "operator": operator, "values": sorted(values)},
    _keys,
    st.sampled_from(["In", "NotIn"]),
    st.sets(_values, min_size=1),
)
_terms = st.builds(
    lambda expressions: {"matchExpressions": expressions} if expressions else {},
    st.lists(_expressions, max_size=3),
)
_groups = st.lists(st.lists(_terms, max_size=3), max_size=3)
_nodes = st.dictionaries(_keys, _values)


def _matches(node: dict[str, str], terms: list[Any]) -> bool:
    """Kubernetes' own meaning: terms ORed, expressions ANDed, an empty term matches no node."""
    return any(
        bool(term.get("matchExpressions")) and all(_holds(node, e) for e in term["matchExpressions"])
        for term in terms
    )


def _holds(node: dict[str, str], expression: dict[str, Any]) -> bool:
    inside = node.get(expression["key"]) in expression["values"]
    return inside if expression["operator"] == "In" else not inside


@given(_groups, _nodes)
def test_product_of_terms_matches_what_all_groups_match(groups: list[Any], node: dict[str, str]) -> None:
    """For any node: the product matches it exactly if each group that asks for something does."""
    merged = and_terms(groups)
    asked = [group for group in groups if group]
    if not asked:
        assert merged == []
        return
    assert _matches(node, merged) == all(_matches(node, group) for group in asked)


@given(_groups)
def test_inputs_are_left_as_they_are(groups: list[Any]) -> None:
    """Whatever is merged may be merged again."""
    before = copy.deepcopy(groups)
    and_terms(groups)
    assert groups == before


def test_terms_share_no_objects() -> None:
    """A shared expression would be written as a YAML alias."""
    expression = {"key": "a", "operator": "Exists"}
    merged = and_terms(
        [
            [{"matchExpressions": [expression]}],
            [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [v]}]} for v in "xy"],
        ]
    )
    assert merged[0]["matchExpressions"][0] is not merged[1]["matchExpressions"][0]


def _pod_term(key: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": key}}}


def test_affinities_are_joined() -> None:
    """Required node terms multiply; preferences and pod terms of both stand side by side, equal ones once."""
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    arch = {"key": "arch", "operator": "In", "values": ["amd64"]}
    preference = {"weight": 1, "preference": {"matchExpressions": [zone]}}
    ours = {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [arch]}]}},
        "podAntiAffinity": {REQUIRED: [_pod_term("host")]},
    }
    theirs = {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [zone]}]},
            PREFERRED: [preference],
        },
        "podAntiAffinity": {REQUIRED: [_pod_term("zone"), _pod_term("host")]},
        "podAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": _pod_term("rack")}]},
    }
    assert merge_affinity([ours, {}, theirs]) == {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [arch, zone]}]},
            PREFERRED: [preference],
        },
        "podAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": _pod_term("rack")}]},
        "podAntiAffinity": {REQUIRED: [_pod_term("host"), _pod_term("zone")]},
    }


_named = st.lists(
    st.builds(lambda name, value: {"name": name, "value": value}, st.sampled_from("ABCDE"), _values)
)


@given(_named, _named)
def test_named_lists_hold_each_name_once_and_theirs_wins(ours: list[Any], theirs: list[Any]) -> None:
    """The names are the union, and for a name of theirs their last value counts."""
    unique = [{"name": name, "value": "ours"} for name in sorted({item["name"] for item in ours})]
    merged = merge_named(unique, theirs)
    names = [item["name"] for item in merged]
    assert len(names) == len(set(names))
    assert set(names) == {item["name"] for item in [*unique, *theirs]}
    last = {item["name"]: item["value"] for item in theirs}
    assert all(item["value"] == last.get(item["name"], "ours") for item in merged)


@pytest.mark.parametrize(
    ("base", "over", "merged"),
    [
        ({"a": 1, "b": 2}, {"b": 3}, {"a": 1, "b": 3}),
        ({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
        ({"a": {"x": [1, 2]}}, {"a": {"x": [3]}}, {"a": {"x": [3]}}),
        ({"a": {"x": 1}}, {"a": None}, {"a": None}),
    ],
    ids=["scalar", "nested", "list-is-replaced", "null-replaces"],
)
def test_deep_merge(base: dict[str, Any], over: dict[str, Any], merged: dict[str, Any]) -> None:
    """Mappings are joined, everything else of `over` replaces."""
    assert deep_merge(base, over) == merged


def test_duplicates_go_and_order_stays() -> None:
    """The first of equal items stays where it was."""
    assert without_duplicates([{"a": 1}, "x", {"a": 1}, "y", "x"]) == [{"a": 1}, "x", "y"]
