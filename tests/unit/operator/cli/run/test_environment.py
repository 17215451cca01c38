"""The environment is resolved as a kubelet would."""

from __future__ import annotations

from typing import Any

import pytest
from xeontrain_operator.cli.files import InputError
from xeontrain_operator.cli.run.environment import container_environment, expanded
from xeontrain_operator.cli.run.objects import Objects

DOCUMENTS = [
    {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"A": "1", "B": "2"}},
    {"kind": "Secret", "metadata": {"name": "s"}, "data": {"K": "a2V5"}},
]
FIELDS = {"metadata.name": "job-0", "metadata.labels['team']": "nlp"}
LIMITS = {"limits": {"cpu": "1500m", "memory": "3Gi"}, "requests": {"cpu": "1500m", "memory": "3Gi"}}


def _environment(*env: dict[str, Any], env_from: tuple[dict[str, Any], ...] = ()) -> dict[str, str]:
    container = {"env": list(env), "envFrom": list(env_from), "resources": LIMITS}
    objects = Objects(DOCUMENTS, source="job.yaml")
    return container_environment(container, fields=FIELDS, objects=objects, source="job.yaml")


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ({"configMapKeyRef": {"name": "c", "key": "B"}}, "2"),
        ({"secretKeyRef": {"name": "s", "key": "K"}}, "key"),
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "job-0"),
        ({"fieldRef": {"fieldPath": "metadata.labels['team']"}}, "nlp"),
        ({"fieldRef": {"fieldPath": "metadata.labels['none']"}}, ""),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "2"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}, "1500"),
        ({"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Gi"}}, "3"),
    ],
    ids=["config-map", "secret", "field", "label", "no-label", "cpu", "millis", "memory"],
)
def test_value_from(source: dict[str, Any], value: str) -> None:
    """Each source gives its value."""
    assert _environment({"name": "X", "valueFrom": source}) == {"X": value}


@pytest.mark.parametrize(
    "source",
    [
        {"configMapKeyRef": {"name": "none", "key": "B", "optional": True}},
        {"secretKeyRef": {"name": "s", "key": "none", "optional": True}},
    ],
    ids=["object", "key"],
)
def test_optional_is_left_out(source: dict[str, Any]) -> None:
    """A missing optional key makes no variable."""
    assert _environment({"name": "X", "valueFrom": source}) == {}


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "B"}}, "ConfigMap none is not in the file"),
        ({"configMapKeyRef": {"name": "c", "key": "Z"}}, "has no key Z; it has A, B"),
        ({"fieldRef": {"fieldPath": "status.qosClass"}}, "exists only in a cluster"),
        ({"resourceFieldRef": {"resource": "limits.ephemeral-storage"}}, "exists only in a cluster"),
    ],
    ids=["object", "key", "field", "resource"],
)
def test_refusals(source: dict[str, Any], says: str) -> None:
    """What only a cluster knows is an error that names the variable."""
    with pytest.raises(InputError, match=r"spec\.env \(X\)") as caught:
        _environment({"name": "X", "valueFrom": source})
    assert says in str(caught.value)


def test_env_wins_over_env_from() -> None:
    """envFrom comes first, with its prefix; env wins."""
    sources = ({"prefix": "P_", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}})
    found = _environment({"name": "P_A", "value": "mine"}, env_from=sources)
    assert found == {"P_A": "mine", "P_B": "2", "K": "key"}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("$(A)/x", "1/x"),
        ("$(A)$(B)", "1$(B)"),
        ("$$(A)", "$(A)"),
        ("$A ${A}", "$A ${A}"),
        ("100%", "100%"),
    ],
)
def test_references(text: str, result: str) -> None:
    """$(NAME) is replaced where it is known; $$ is a dollar sign; the shell's own forms stay."""
    assert expanded(text, {"A": "1"}) == result


def test_references_see_only_what_comes_before() -> None:
    """Order counts, as in a pod."""
    found = _environment(
        {"name": "EARLY", "value": "$(LATE)"},
        {"name": "LATE", "value": "1"},
        {"name": "AFTER", "value": "$(LATE)"},
    )
    assert found == {"EARLY": "$(LATE)", "LATE": "1", "AFTER": "1"}
