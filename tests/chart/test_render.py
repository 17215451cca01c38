"""The chart for every kind of values: valid, safe, consistent; refused with a clear message where wrong."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

import kubernetes_validate
import pytest
from xeontrain_operator.api.crd import crd
from xeontrain_operator.kube.permissions import CLUSTER_PERMISSIONS, PERMISSIONS, Permission
from xeontrain_operator.settings import ENV_SETTINGS_FILE, Settings, load_settings

from tests.chart import cases, policies
from tests.chart.helm import CHART, Helm, HelmFailed, Object, one

pytestmark = pytest.mark.cluster

KUBERNETES_VERSIONS = ("1.34", "1.37")
every_case = pytest.mark.parametrize("values", list(cases.ACCEPTED.values()), ids=list(cases.ACCEPTED))


@every_case
def test_lint_is_clean(helm: Helm, values: dict[str, Any]) -> None:
    """`helm lint --strict` finds no error and no warning."""
    assert "0 chart(s) failed" in helm.run("lint", "--strict", str(CHART), values=values)


@every_case
def test_objects_fit_the_schemas_of_kubernetes(helm: Helm, values: dict[str, Any]) -> None:
    """Each object is valid, without unknown fields, for the oldest and the newest Kubernetes."""
    for item in helm.template(values):
        _validate(json.dumps(item))


@functools.cache
def _validate(item: str) -> None:
    """Most objects are the same in most cases, and the schemas are slow to load: each object once."""
    for version in KUBERNETES_VERSIONS:
        kubernetes_validate.validate(json.loads(item), version, strict=True)


@pytest.mark.parametrize(
    "policy",
    [
        policies.metadata_problems,
        policies.restricted_problems,
        policies.rbac_problems,
        policies.port_problems,
    ],
)
@every_case
def test_policy_holds(helm: Helm, values: dict[str, Any], policy: Callable[[Object], Iterator[str]]) -> None:
    """The policy holds for each object."""
    assert [problem for item in helm.template(values) for problem in policy(item)] == []


@pytest.mark.parametrize(("values", "words"), list(cases.REFUSED.values()), ids=list(cases.REFUSED))
def test_wrong_values_are_refused(helm: Helm, values: dict[str, Any], words: tuple[str, ...]) -> None:
    """helm names the key and what is wrong with it, and renders nothing."""
    with pytest.raises(HelmFailed) as refusal:
        helm.template(values)
    message = str(refusal.value)
    assert [word for word in words if word not in message] == [], message


def _settings(objects: list[Object], folder: Any) -> Settings:
    file = folder / "settings.yaml"
    file.write_text(one(objects, "ConfigMap")["data"]["settings.yaml"])
    return load_settings({ENV_SETTINGS_FILE: str(file)})


@every_case
def test_operator_reads_its_settings(helm: Helm, values: dict[str, Any], tmp_path: Any) -> None:
    """The mounted file is one that the operator takes, and tells it the truth about its own pod."""
    objects = helm.template(values)
    settings = _settings(objects, tmp_path)
    deployment = one(objects, "Deployment")
    pod = deployment["spec"]["template"]
    container = pod["spec"]["containers"][0]
    assert settings.namespace == deployment["metadata"]["namespace"]
    assert policies.selects(dict(settings.pod_labels), pod["metadata"]["labels"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"healthz": settings.probe_port, "metrics": settings.metrics_port}
    mount = next(mount for mount in container["volumeMounts"] if mount["name"] == "settings")
    environ = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert environ[ENV_SETTINGS_FILE] == f"{mount['mountPath']}/settings.yaml"


def test_values_reach_the_operator(helm: Helm, tmp_path: Any) -> None:
    """Each value that is about jobs arrives in the settings unchanged."""
    objects = helm.template(cases.EVERYTHING)
    settings = _settings(objects, tmp_path)
    pool = settings.node_pools["xeon-large"]
    wanted = cases.EVERYTHING["nodePools"]["xeon-large"]
    assert dict(pool.node_selector) == wanted["nodeSelector"]
    assert [dict(toleration) for toleration in pool.tolerations] == wanted["tolerations"]
    assert (pool.price_per_hour, pool.cpus_per_node) == (1.53, 32)
    assert settings.trainer_image == "registry.example.com:5000/ml/xeontrain-trainer:1.2.3-ipex"
    assert settings.trainer_image_pull_policy == "Always"
    assert settings.trainer_image_pull_secrets == ("pull-c",)
    # The launcher comes from the image that the operator itself runs in.
    (operator,) = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert settings.launcher_image == operator["image"]
    assert settings.launcher_image_pull_policy == operator["imagePullPolicy"]
    assert settings.network_policy.enabled
    assert [dict(peer) for peer in settings.network_policy.metrics_from] == (
        cases.EVERYTHING["networkPolicy"]["metricsFrom"]
    )
    assert (settings.currency, settings.cluster_domain) == ("EUR", "corp.example.com")
    assert (settings.concurrent_reconciles, settings.resync_seconds) == (16, 60)
    assert (settings.polling.min_interval_seconds, settings.polling.max_questions_per_second) == (2.5, 50)


def test_watched_namespaces_reach_the_operator(helm: Helm, tmp_path: Any) -> None:
    """The operator watches where it has a role, and nowhere else."""
    objects = helm.template(cases.ACCEPTED["two-namespaces"])
    roles = [item["metadata"]["namespace"] for item in objects if item["kind"] == "Role"]
    assert roles == list(_settings(objects, tmp_path).watch_namespaces) == ["team-a", "team-b"]


@every_case
def test_selectors_select_the_operator(helm: Helm, values: dict[str, Any]) -> None:
    """The selectors of Deployment and Service take the operator's pod, and not the test pod."""
    objects = helm.template(values)
    deployment = one(objects, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selectors = [deployment["spec"]["selector"]["matchLabels"]]
    selectors += [item["spec"]["selector"] for item in objects if item["kind"] == "Service"]
    other = one(objects, "Pod")["metadata"]["labels"]
    for selector in selectors:
        assert policies.selects(selector, labels)
        assert not policies.selects(selector, other)


@every_case
def test_selector_does_not_depend_on_values(helm: Helm, values: dict[str, Any]) -> None:
    """A Deployment's selector cannot change: only a name of its own may, and that is a new Deployment."""
    selector = one(helm.template(values), "Deployment")["spec"]["selector"]["matchLabels"]
    assert selector == {
        "app.kubernetes.io/name": values.get("nameOverride", "xeontrain"),
        "app.kubernetes.io/instance": "xeontrain",
        "app.kubernetes.io/component": "operator",
    }


@every_case
def test_bindings_name_the_account_of_the_pod(helm: Helm, values: dict[str, Any]) -> None:
    """Each binding gives its role to the operator's account, and each role has a binding."""
    objects = helm.template(values)
    account = one(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    bindings = [item for item in objects if item["kind"] in ("RoleBinding", "ClusterRoleBinding")]
    for binding in bindings:
        assert [(s["kind"], s["name"], s["namespace"]) for s in binding["subjects"]] == [
            ("ServiceAccount", account, "xeontrain-system")
        ]
    bound = {(b["roleRef"]["kind"], b["roleRef"]["name"], b["metadata"].get("namespace")) for b in bindings}
    own = {
        (item["kind"], item["metadata"]["name"], item["metadata"].get("namespace"))
        for item in objects
        if item["kind"] in ("Role", "ClusterRole") and not _is_for_people(item)
    }
    assert bound == own


def _grants(role: Object) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _needs(permissions: tuple[Permission, ...]) -> set[tuple[str, str, str]]:
    return {(one.group, one.resource, verb) for one in permissions for verb in one.verbs}


def test_cluster_wide_role_is_what_the_operator_uses(helm: Helm) -> None:
    """One ClusterRole, with every right that the operator's code lists and no other."""
    objects = helm.template({})
    assert _grants(one(objects, "ClusterRole", suffix="-operator")) == _needs(
        (*PERMISSIONS, *CLUSTER_PERMISSIONS)
    )
    assert "Role" not in {item["kind"] for item in objects}


def test_namespaced_roles_are_what_the_operator_uses(helm: Helm) -> None:
    """With a list of namespaces all rights but those on nodes are confined to them."""
    objects = helm.template(cases.ACCEPTED["two-namespaces"])
    assert _grants(one(objects, "ClusterRole", suffix="-operator")) == _needs(CLUSTER_PERMISSIONS)
    roles = [item for item in objects if item["kind"] == "Role"]
    assert [_grants(role) for role in roles] == [_needs(PERMISSIONS)] * 2


def _is_for_people(role: Object) -> bool:
    return any(
        label.startswith("rbac.authorization.k8s.io/aggregate-to-") for label in role["metadata"]["labels"]
    )


@pytest.mark.parametrize(
    ("values", "image"),
    [
        ({}, "xeontrain-operator:0.1.0"),
        ({"images": {"operator": {"tag": "main"}}}, "xeontrain-operator:main"),
        ({"images": {"registry": "r.example.com/"}}, "r.example.com/xeontrain-operator:0.1.0"),
        (
            {"images": {"operator": {"tag": "main", "digest": "sha256:" + "0" * 64}}},
            "xeontrain-operator@sha256:" + "0" * 64,
        ),
    ],
    ids=["default", "tag", "registry", "digest"],
)
def test_image_reference(helm: Helm, values: dict[str, Any], image: str) -> None:
    """A digest wins over a tag, a tag over the chart's version; all containers use the same."""
    objects = helm.template(values)
    images = {
        c["image"] for item in objects for pod in policies.pod_specs(item) for c in policies.containers(pod)
    }
    assert images == {image}


def _checksum(helm: Helm, values: dict[str, Any]) -> str:
    template = one(helm.template(values), "Deployment")["spec"]["template"]
    checksum: str = template["metadata"]["annotations"]["checksum/settings"]
    return checksum


@pytest.mark.parametrize(
    ("values", "rolls"),
    [
        ({"nodePools": {"a": {"pricePerHour": 2}}}, True),
        ({"images": {"trainer": {"tag": "other"}}}, True),
        ({"networkPolicy": {"enabled": False}}, True),
        ({"metrics": {"service": {"port": 9090}}}, False),
        ({"rbac": {"userRoles": False}}, False),
    ],
    ids=["pools", "trainer-image", "network-policy", "metrics-port", "user-roles"],
)
def test_changed_settings_make_a_new_pod(helm: Helm, values: dict[str, Any], rolls: bool) -> None:
    """The operator reads its settings once: a change of them, and of nothing else, replaces its pod."""
    assert (_checksum(helm, values) != _checksum(helm, {})) is rolls


@pytest.mark.parametrize(
    ("values", "kept"), [({}, True), ({"crds": {"keep": False}}, False)], ids=["default", "not-kept"]
)
def test_crd_is_kept_on_uninstall(helm: Helm, values: dict[str, Any], kept: bool) -> None:
    """Unless it is asked for, an uninstall never deletes the resource, which would delete every job."""
    annotations = one(helm.template(values), "CustomResourceDefinition")["metadata"].get("annotations", {})
    assert (annotations.get("helm.sh/resource-policy") == "keep") is kept


def test_crd_equals_the_models(helm: Helm) -> None:
    """What helm makes of the template, braces and all, is the definition that the models give."""
    assert one(helm.template({}), "CustomResourceDefinition")["spec"] == crd()["spec"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"crds": {"enabled": False}}, "CustomResourceDefinition"),
        ({"rbac": {"create": False}}, "ClusterRoleBinding"),
        ({"metrics": {"service": {"enabled": False}}}, "Service"),
        ({"serviceAccount": {"create": False, "name": "x"}}, "ServiceAccount"),
    ],
    ids=["crds", "rbac", "metrics", "account"],
)
def test_switch_leaves_out(helm: Helm, values: dict[str, Any], kind: str) -> None:
    """A part that is switched off is not there, and is there by default."""
    assert kind in {item["kind"] for item in helm.template({})}
    assert kind not in {item["kind"] for item in helm.template(values)}
