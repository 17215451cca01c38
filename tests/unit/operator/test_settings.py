"""Settings: what the chart mounts is what the operator reads, and mistakes are named by file and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from xeontrain_operator.settings import Settings, SettingsError, load_settings

EVERYTHING = """
trainerImage: registry.example/trainer:1
trainerImagePullPolicy: IfNotPresent
trainerImagePullSecrets: [registry]
namespace: ops
podLabels: {app: xeontrain}
watchNamespaces: [team-a]
clusterDomain: example.local
currency: EUR
nodePools:
  xeon:
    nodeSelector: {pool: xeon}
    tolerations: [{key: xeon, operator: Exists}]
    pricePerHour: 1.5
    cpusPerNode: 32
networkPolicy:
  enabled: true
  metricsFrom: [{podSelector: {}}]
polling: {minIntervalSeconds: 2, maxQuestionsPerSecond: 10}
concurrentReconciles: 4
resyncSeconds: 60
"""


def _load(tmp_path: Path, text: str, **environ: str) -> Settings:
    file = tmp_path / "settings.yaml"
    file.write_text(text, encoding="utf-8")
    return load_settings({"XEONTRAIN_SETTINGS_FILE": str(file), **environ})


def test_file_with_every_key(tmp_path: Path) -> None:
    """Each key of the chart's file reaches its field."""
    settings = _load(tmp_path, EVERYTHING)
    assert settings.trainer_image == "registry.example/trainer:1"
    assert settings.node_pools["xeon"].price_per_hour == 1.5
    assert settings.node_pools["xeon"].tolerations == ({"key": "xeon", "operator": "Exists"},)
    assert settings.network_policy.metrics_from == ({"podSelector": {}},)
    assert settings.polling.interval_seconds(running_jobs=1) == 2
    assert settings.polling.interval_seconds(running_jobs=100) == 10
    assert (settings.namespace, settings.watch_namespaces) == ("ops", ("team-a",))


def test_environment_wins_over_the_file(tmp_path: Path) -> None:
    """What the pod itself knows, and an image for a quick trial."""
    settings = _load(
        tmp_path,
        EVERYTHING,
        XEONTRAIN_OPERATOR_NAMESPACE="here",
        XEONTRAIN_OPERATOR_TRAINER_IMAGE="trial:2",
    )
    assert (settings.namespace, settings.trainer_image) == ("here", "trial:2")


def test_nothing_given_is_all_defaults() -> None:
    """No file, no environment; and an empty file is none."""
    assert load_settings({}) == Settings()


def test_empty_file_is_all_defaults(tmp_path: Path) -> None:
    """A chart may have nothing to say."""
    assert _load(tmp_path, "") == Settings()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("trainerImagee: x", "trainerImagee"),
        ("resyncSeconds: 1", "resyncSeconds"),
        ("nodePools: {xeon: {pricePerHour: -1}}", "nodePools.xeon.pricePerHour"),
        ("- a", "must be a mapping"),
        ("a: [", "cannot be read as YAML"),
    ],
    ids=["unknown-key", "out-of-bounds", "nested", "list", "broken-yaml"],
)
def test_mistakes_are_named(tmp_path: Path, text: str, words: str) -> None:
    """The file and the key: the platform team reads this in a pod's log."""
    with pytest.raises(SettingsError, match=r"settings\.yaml") as caught:
        _load(tmp_path, text)
    assert words in str(caught.value)


def test_missing_file_is_named() -> None:
    """A mount that was forgotten."""
    with pytest.raises(SettingsError, match=r"/nowhere/settings\.yaml"):
        load_settings({"XEONTRAIN_SETTINGS_FILE": "/nowhere/settings.yaml"})
