"""Values that a platform team may write, by what they are about."""

from __future__ import annotations

from typing import Any, Final

_DIGEST: Final = "sha256:" + "ab" * 32

EVERYTHING: Final[dict[str, Any]] = {
    "images": {
        "registry": "registry.example.com:5000/ml/",
        "operator": {"digest": _DIGEST, "pullPolicy": "Always", "pullSecrets": ["pull-a", "pull-b"]},
        "trainer": {"tag": "1.2.3-ipex", "pullPolicy": "Always", "pullSecrets": ["pull-c"]},
    },
    "nodePools": {
        "xeon-large": {
            "nodeSelector": {"example.com/pool": "xeon-large", "example.com/true": "true"},
            "tolerations": [{"key": "example.com/training", "operator": "Exists", "effect": "NoSchedule"}],
            "pricePerHour": 1.53,
            "cpusPerNode": 32,
        },
        "xeon-small": {},
    },
    "currency": "EUR",
    "clusterDomain": "corp.example.com",
    "networkPolicy": {
        "metricsFrom": [
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}},
            {"ipBlock": {"cidr": "10.0.0.0/8"}},
        ]
    },
    "operator": {
        "concurrentReconciles": 16,
        "resyncSeconds": 60,
        "polling": {"minIntervalSeconds": 2.5, "maxQuestionsPerSecond": 50},
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
        "terminationGracePeriodSeconds": 60,
        "podLabels": {"example.com/team": "ml", "sidecar.istio.io/inject": "false"},
        "podAnnotations": {"example.com/note": 'quotes " and {{ braces }}'},
        "extraEnv": [
            {"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
                            ]
                        }
                    ]
                }
            }
        },
    },
    "serviceAccount": {"name": "trainer-operator", "annotations": {"example.com/role": "none"}},
    "metrics": {"service": {"port": 9090, "annotations": {"prometheus.io/scrape": "true"}}},
}

ACCEPTED: Final[dict[str, dict[str, Any]]] = {
    "defaults": {},
    "everything": EVERYTHING,
    "two-namespaces": {"watchNamespaces": ["team-a", "team-b"]},
    "no-crd": {"crds": {"enabled": False}},
    "crd-not-kept": {"crds": {"keep": False}},
    "no-roles": {"rbac": {"create": False, "userRoles": False}},
    "existing-account": {"serviceAccount": {"create": False, "name": "existing"}},
    "no-network-policy": {"networkPolicy": {"enabled": False}},
    "no-metrics-service": {"metrics": {"service": {"enabled": False}}},
    "own-names": {"nameOverride": "xt", "fullnameOverride": "training"},
    "longest-name": {"fullnameOverride": "x" * 46},
    "parent-chart": {"global": {"anything": 1}},
}

# Values that are refused, with words that the message must have: the key, and what is wrong with it.
REFUSED: Final[dict[str, tuple[dict[str, Any], tuple[str, ...]]]] = {
    "unknown-key": ({"replicas": 2}, ("replicas", "not allowed")),
    "unknown-inner-key": ({"operator": {"replicas": 2}}, ("operator", "replicas", "not allowed")),
    "unknown-pool-key": ({"nodePools": {"a": {"price": 1}}}, ("nodePools/a", "price")),
    "pool-name": ({"nodePools": {"Big Pool": {}}}, ("nodePools", "Big Pool")),
    "pool-price-text": ({"nodePools": {"a": {"pricePerHour": "1.5"}}}, ("pricePerHour", "number")),
    "pool-selector-number": ({"nodePools": {"a": {"nodeSelector": {"x": 1}}}}, ("nodeSelector/x", "string")),
    "tag-number": ({"images": {"operator": {"tag": 1.2}}}, ("images/operator/tag", "string")),
    "digest": ({"images": {"trainer": {"digest": "latest"}}}, ("images/trainer/digest", "pattern")),
    "repository-with-tag": (
        {"images": {"operator": {"repository": "xeontrain-operator:1"}}},
        ("images/operator/repository", "pattern"),
    ),
    "pull-policy": ({"images": {"operator": {"pullPolicy": "Sometimes"}}}, ("pullPolicy", "Always")),
    "namespaces-text": ({"watchNamespaces": "team-a"}, ("watchNamespaces", "array")),
    "namespace-name": ({"watchNamespaces": ["Team_A"]}, ("watchNamespaces/0", "pattern")),
    "crds-text": ({"crds": {"enabled": "yes"}}, ("crds/enabled", "boolean")),
    "reconciles": ({"operator": {"concurrentReconciles": 0}}, ("concurrentReconciles", "1")),
    "resync": ({"operator": {"resyncSeconds": 1}}, ("resyncSeconds", "10")),
    "own-pod-label": (
        {"operator": {"podLabels": {"app.kubernetes.io/name": "other"}}},
        ("podLabels/app.kubernetes.io~1name",),
    ),
    "own-env": (
        {"operator": {"extraEnv": [{"name": "XEONTRAIN_SETTINGS_FILE", "value": "/x"}]}},
        ("extraEnv/0/name",),
    ),
    "env-number": ({"operator": {"extraEnv": [{"name": "A", "value": 1}]}}, ("extraEnv/0/value", "string")),
    "account-missing": ({"serviceAccount": {"create": False}}, ("serviceAccount", "name")),
    "currency": ({"currency": "euro"}, ("currency", "pattern")),
    "metrics-port": ({"metrics": {"service": {"port": 0}}}, ("metrics/service/port", "1")),
    "long-prefix": ({"fullnameOverride": "x" * 47}, ("fullnameOverride", "46")),
}
