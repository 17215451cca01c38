"""Merging pieces of pod specs so that nothing that either side asks for is lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import product
from typing import Any

Term = Mapping[str, Any]
"""A core/v1 NodeSelectorTerm: its expressions are ANDed, and terms of a list are ORed."""

_TERM_LISTS = ("matchExpressions", "matchFields")


def without_duplicates(items: Iterable[Any]) -> list[Any]:
    """The items in their order, later equal ones left out (they may be unhashable)."""
    kept: list[Any] = []
    for item in items:
        if item not in kept:
            kept.append(item)
    return kept


def and_terms(groups: Iterable[Sequence[Term]]) -> list[dict[str, Any]]:
    """Node-selector terms that match exactly those nodes that every group matches.

    Terms of a group are ORed, so the conjunction of groups is their cross product. An empty group asks
    for nothing. An empty term matches no node (that is Kubernetes' rule), so it must not vanish in a
    product: a group of empty terms alone gives one empty term.
    """
    asked = [group for group in groups if group]
    meaningful = [[term for term in group if _is_meaningful(term)] for group in asked]
    if not asked:
        return []
    if not all(meaningful):
        return [{}]
    return without_duplicates(_and(terms) for terms in product(*meaningful))


def _is_meaningful(term: Term) -> bool:
    return any(term.get(key) for key in _TERM_LISTS)


def _and(terms: Iterable[Term]) -> dict[str, Any]:
    terms = list(terms)
    merged = {key: without_duplicates(e for t in terms for e in t.get(key) or ()) for key in _TERM_LISTS}
    # Copies: an object that stands in several terms would be written as a YAML alias.
    return {key: deepcopy(expressions) for key, expressions in merged.items() if expressions}


def merge_affinity(affinities: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """A core/v1 Affinity that asks for all that the given ones ask for.

    Lists of pod terms and of preferences are ANDed or summed by Kubernetes, so they are joined; required
    node-selector terms are ORed, so they are multiplied out (`and_terms`).
    """
    given = [affinity for affinity in affinities if affinity]
    merged = {
        "nodeAffinity": _merge_node_affinity([a["nodeAffinity"] for a in given if a.get("nodeAffinity")]),
        "podAffinity": _join_lists([a["podAffinity"] for a in given if a.get("podAffinity")]),
        "podAntiAffinity": _join_lists([a["podAntiAffinity"] for a in given if a.get("podAntiAffinity")]),
    }
    return {key: value for key, value in merged.items() if value}


def _merge_node_affinity(affinities: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    required, preferred = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    terms = and_terms([(a.get(required) or {}).get("nodeSelectorTerms") or [] for a in affinities])
    preferences = [item for a in affinities for item in a.get(preferred) or ()]
    merged: dict[str, Any] = {}
    if terms:
        merged[required] = {"nodeSelectorTerms": terms}
    if preferences:
        merged[preferred] = preferences
    return merged


def _join_lists(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for part in parts:
        for key, items in part.items():
            if items:
                merged[key] = without_duplicates([*merged.get(key, ()), *items])
    return merged


def merge_named(ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> list[Any]:
    """A list keyed by `name` in which each name stands once and theirs wins over ours.

    Ours come first, so that a variable of theirs may refer to one of ours (`$(NAME)`); of two with the
    same name in `theirs` the last counts, as it does in Kubernetes.
    """
    last = {item["name"]: item for item in theirs}
    names_of_theirs = without_duplicates(item["name"] for item in theirs)
    return [*(item for item in ours if item["name"] not in last), *(last[name] for name in names_of_theirs)]


def deep_merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the keys of `over` put over it, mapping by mapping; any other value is replaced."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        both = isinstance(value, Mapping) and isinstance(below, Mapping)
        merged[key] = deep_merge(below, value) if both else value  # type: ignore[arg-type]
    return merged
