"""Jobs that are taken and jobs that are refused when they are created, with the field that the answer names.

The same table runs through `xeontrain validate` and through a real API server, which must agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.contract.cases.edits import COMMAND, REMOVED, TRAINING, Job, edited


@dataclass(frozen=True)
class Case:
    """One document. `refused_at` is the path of the field that the answer names; None: it is taken."""

    id: str
    edits: dict[str, Any] = field(default_factory=dict)
    refused_at: str | None = None
    base: Job = field(default_factory=lambda: TRAINING)
    says: str = ""
    """Part of the answer that a person reads, where the rule is ours and both answer with it."""

    @property
    def document(self) -> Job:
        """The whole job."""
        return edited(self.base, self.edits)


def _training(
    id: str, edits: dict[str, Any] | None = None, refused_at: str | None = None, says: str = ""
) -> Case:
    return Case(id=id, edits=edits or {}, refused_at=refused_at, says=says)


def _command(
    id: str, edits: dict[str, Any] | None = None, refused_at: str | None = None, says: str = ""
) -> Case:
    return Case(id=id, edits=edits or {}, refused_at=refused_at, says=says, base=COMMAND)


_NAMES = [
    _training("name-52-characters", {"metadata.name": "a" * 52}),
    _training("name-53-characters", {"metadata.name": "a" * 53}, "metadata.name", "at most 52 characters"),
    _training("name-begins-with-digit", {"metadata.name": "1job"}, "metadata.name", "with a letter"),
    _training("name-with-dot", {"metadata.name": "a.b"}, "metadata.name", "lowercase letters, digits and -"),
    _training("name-with-digits-and-dashes", {"metadata.name": "a-1-b2"}),
    _training("generated-name", {"metadata.name": REMOVED, "metadata.generateName": "mail-"}),
    _training(
        "generated-name-too-long",
        {"metadata.name": REMOVED, "metadata.generateName": "a" * 50},
        "metadata.name",
        "at most 52 characters",
    ),
]

_KIND_OF_WORK = [
    _training("training-alone"),
    _command("command-alone"),
    _training("training-and-command", {"spec.command": ["true"]}, "spec", "exactly one of training"),
    _training("neither", {"spec.training": REMOVED}, "spec", "exactly one of training"),
    _command("args-with-command", {"spec.args": ["--epochs", "3"]}),
    _training("args-with-training", {"spec.args": ["--epochs", "3"]}, "spec.args", "args go with command"),
    _command("working-dir-with-command", {"spec.workingDir": "/src"}),
    _training(
        "working-dir-with-training", {"spec.workingDir": "/src"}, "spec.workingDir", "goes with command"
    ),
    _command("empty-command", {"spec.command": []}, "spec.command"),
    _training("no-spec", {"spec": REMOVED}, "spec"),
]

_WORKERS = [
    _training("one-worker", {"spec.workers": 1}),
    _training("512-workers", {"spec.workers": 512, "spec.training.hyperparameters.batchSize": 512}),
    _training("no-worker", {"spec.workers": 0}, "spec.workers"),
    _training("minus-one-worker", {"spec.workers": -1}, "spec.workers"),
    _training("513-workers", {"spec.workers": 513}, "spec.workers"),
    _training("workers-as-string", {"spec.workers": "2"}, "spec.workers"),
    _training("workers-null-is-default", {"spec.workers": None}),
    _training("workers-fraction", {"spec.workers": 1.5}, "spec.workers"),
    _training("ranks-auto", {"spec.ranksPerWorker": "Auto"}),
    _training("ranks-as-number", {"spec.ranksPerWorker": 4}),
    _training("ranks-zero", {"spec.ranksPerWorker": 0}, "spec.ranksPerWorker", "write Auto or a number"),
    _training("ranks-65", {"spec.ranksPerWorker": 65}, "spec.ranksPerWorker", "write Auto or a number"),
    _training("ranks-small-auto", {"spec.ranksPerWorker": "auto"}, "spec.ranksPerWorker", "write Auto"),
    _training("world-as-large-as-the-batch", {"spec.workers": 4, "spec.ranksPerWorker": 4}),
    _training(
        "world-larger-than-the-batch",
        {"spec.workers": 4, "spec.ranksPerWorker": 5},
        "spec.workers",
        "more ranks than samples",
    ),
    _training(
        "workers-larger-than-the-batch", {"spec.workers": 17}, "spec.workers", "more ranks than samples"
    ),
    _training("world-that-does-not-divide-the-batch", {"spec.workers": 3}),
    _command("many-ranks-of-a-command", {"spec.workers": 100, "spec.ranksPerWorker": 4}),
]

_RESOURCES = [
    _training("cpu-number", {"spec.resources.cpu": 8}),
    _training("cpu-string", {"spec.resources.cpu": "8"}),
    _training("cpu-millis", {"spec.resources.cpu": "8000m"}),
    _training("cpu-point-zero", {"spec.resources.cpu": "8.0"}),
    _training("cpu-fraction", {"spec.resources.cpu": "7.5"}, "spec.resources.cpu", "write whole CPUs"),
    _training(
        "cpu-fraction-in-millis", {"spec.resources.cpu": "7500m"}, "spec.resources.cpu", "write whole CPUs"
    ),
    _training("cpu-fraction-unpinned", {"spec.resources.cpu": "7.5", "spec.pinning": "Disabled"}),
    _training("cpu-bare-fraction", {"spec.resources.cpu": 7.5}, "spec.resources.cpu"),
    _training("cpu-zero", {"spec.resources.cpu": 0}, "spec.resources.cpu", "write a number of CPUs"),
    _training("cpu-zero-string", {"spec.resources.cpu": "0"}, "spec.resources.cpu", "write a number of CPUs"),
    _training(
        "cpu-zero-millis", {"spec.resources.cpu": "0m"}, "spec.resources.cpu", "write a number of CPUs"
    ),
    _training("cpu-negative", {"spec.resources.cpu": -1}, "spec.resources.cpu", "write a number of CPUs"),
    _training("cpu-words", {"spec.resources.cpu": "eight"}, "spec.resources.cpu", "write a number of CPUs"),
    _training("cpu-missing", {"spec.resources.cpu": REMOVED}, "spec.resources.cpu"),
    _training("memory-missing", {"spec.resources.memory": REMOVED}, "spec.resources.memory"),
    _training("memory-bytes", {"spec.resources.memory": 17179869184}),
    _training("memory-fraction", {"spec.resources.memory": "1.5Gi"}),
    _training(
        "memory-wrong-suffix", {"spec.resources.memory": "16GB"}, "spec.resources.memory", "write a size"
    ),
    _training("memory-zero", {"spec.resources.memory": "0Gi"}, "spec.resources.memory", "write a size"),
    _training("shared-memory", {"spec.resources.sharedMemory": "2Gi"}),
    _training("shared-memory-wrong", {"spec.resources.sharedMemory": "lots"}, "spec.resources.sharedMemory"),
    _training("pinning-required", {"spec.pinning": "Required"}),
    _training("pinning-unknown", {"spec.pinning": "Always"}, "spec.pinning"),
]

_IMAGE_AND_PLACEMENT = [
    _training(
        "image", {"spec.image": "registry.example.com/team/trainer:1", "spec.imagePullPolicy": "Always"}
    ),
    _training("image-with-blank", {"spec.image": "my image"}, "spec.image"),
    _training("image-empty", {"spec.image": ""}, "spec.image"),
    _training("pull-policy-unknown", {"spec.imagePullPolicy": "Sometimes"}, "spec.imagePullPolicy"),
    _training("pull-secrets", {"spec.imagePullSecrets": [{"name": "registry"}]}),
    _training(
        "pull-secret-twice",
        {"spec.imagePullSecrets": [{"name": "registry"}, {"name": "registry"}]},
        "spec.imagePullSecrets[1]",
    ),
    _training("node-pool", {"spec.nodePool": "xeon-spot"}),
    _training("node-pool-wrong", {"spec.nodePool": "Xeon Spot"}, "spec.nodePool"),
    _training(
        "placement-in-full",
        {
            "spec.placement": {
                "cpuGenerations": ["SapphireRapids", "GraniteRapids"],
                "cpuFeatures": ["AMXBF16", "AVX512BF16"],
                "instanceTypes": ["m7i.8xlarge"],
                "capacityType": "Spot",
                "spread": "Packed",
                "nodeSelector": {"team": "nlp"},
                "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
                "affinity": {
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "namespaces": None}}
                        ]
                    }
                },
                "priorityClassName": "batch",
                "schedulerName": "default-scheduler",
                "nodeLostSeconds": 0,
            }
        },
    ),
    _training(
        "cpu-generation-unknown",
        {"spec.placement.cpuGenerations": ["Zen4"]},
        "spec.placement.cpuGenerations[0]",
    ),
    _training(
        "cpu-feature-twice",
        {"spec.placement.cpuFeatures": ["AMXBF16", "AMXBF16"]},
        "spec.placement.cpuFeatures[1]",
    ),
    _training("spread-unknown", {"spec.placement.spread": "Even"}, "spec.placement.spread"),
    _training(
        "node-selector-number", {"spec.placement.nodeSelector": {"team": 1}}, "spec.placement.nodeSelector"
    ),
    _training(
        "node-selector-value-with-blank",
        {"spec.placement.nodeSelector": {"team": "a b"}},
        "spec.placement.nodeSelector",
    ),
    _training(
        "node-selector-key-with-blank",
        {"spec.placement.nodeSelector": {"my team": "a"}},
        "spec.placement.nodeSelector",
        "write label names",
    ),
    _training("node-lost-negative", {"spec.placement.nodeLostSeconds": -1}, "spec.placement.nodeLostSeconds"),
    _training("affinity-no-mapping", {"spec.placement.affinity": ["x"]}, "spec.placement.affinity"),
]

_NETWORK = [
    _training(
        "distributed-in-full",
        {
            "spec.distributed": {
                "backend": "CCL",
                "port": 30000,
                "timeoutSeconds": 60,
                "interface": "eth1",
                "ccl": {"workersPerRank": 2, "provider": "tcp"},
            }
        },
    ),
    _training("backend-unknown", {"spec.distributed.backend": "gloo"}, "spec.distributed.backend"),
    _training("port-privileged", {"spec.distributed.port": 80}, "spec.distributed.port"),
    _training("port-range-ends-at-65534", {"spec.distributed.port": 65435}),
    _training("port-range-too-high", {"spec.distributed.port": 65500}, "spec.distributed.port"),
    _training("timeout-zero", {"spec.distributed.timeoutSeconds": 0}, "spec.distributed.timeoutSeconds"),
    _training(
        "interface-name-too-long", {"spec.distributed.interface": "a" * 16}, "spec.distributed.interface"
    ),
    _training(
        "ccl-workers-zero",
        {"spec.distributed.ccl.workersPerRank": 0},
        "spec.distributed.ccl.workersPerRank",
        "write Auto or a number",
    ),
]

_TRAINING = [
    _training("task-unknown", {"spec.training.task": "translation"}, "spec.training.task"),
    _training("other-task", {"spec.training.task": "question-answering"}),
    _training("model-missing", {"spec.training.model": REMOVED}, "spec.training.model"),
    _training("model-empty", {"spec.training.model": ""}, "spec.training.model"),
    _training("hub", {"spec.training.dataset": {"hub": {"name": "stanfordnlp/imdb", "evalSplit": "test"}}}),
    _training(
        "files-and-hub",
        {"spec.training.dataset.hub": {"name": "stanfordnlp/imdb"}},
        "spec.training.dataset",
        "exactly one of hub",
    ),
    _training("no-data", {"spec.training.dataset": {}}, "spec.training.dataset", "exactly one of hub"),
    _training(
        "no-train-files",
        {"spec.training.dataset.files": {"eval": ["/data/e.csv"]}},
        "spec.training.dataset.files.train",
    ),
    _training(
        "empty-train-files", {"spec.training.dataset.files.train": []}, "spec.training.dataset.files.train"
    ),
    _training(
        "columns", {"spec.training.dataset.columns": {"text": "body", "label": "class", "textPair": "title"}}
    ),
    _training(
        "hyperparameters-in-full",
        {
            "spec.training.hyperparameters": {
                "epochs": 3,
                "maxSteps": 100,
                "batchSize": 64,
                "accumulationSteps": 2,
                "learningRate": 3e-5,
                "weightDecay": 0,
                "warmupRatio": 0.06,
                "schedule": "cosine",
                "maxGradNorm": 1,
                "maxLength": 256,
                "dropout": 0,
                "seed": 7,
            }
        },
    ),
    _training("learning-rate-that-diverges", {"spec.training.hyperparameters.learningRate": 1e6}),
    _training(
        "learning-rate-zero",
        {"spec.training.hyperparameters.learningRate": 0},
        "spec.training.hyperparameters.learningRate",
    ),
    _training(
        "learning-rate-string",
        {"spec.training.hyperparameters.learningRate": "1e-4"},
        "spec.training.hyperparameters.learningRate",
    ),
    _training(
        "batch-zero",
        {"spec.training.hyperparameters.batchSize": 0},
        "spec.training.hyperparameters.batchSize",
    ),
    _training(
        "epochs-fraction",
        {"spec.training.hyperparameters.epochs": 0.5},
        "spec.training.hyperparameters.epochs",
    ),
    _training(
        "dropout-one", {"spec.training.hyperparameters.dropout": 1}, "spec.training.hyperparameters.dropout"
    ),
    _training(
        "schedule-unknown",
        {"spec.training.hyperparameters.schedule": "step"},
        "spec.training.hyperparameters.schedule",
    ),
    _training(
        "precision-ipex-compile",
        {"spec.training.precision": "BF16", "spec.training.ipex": "Enabled", "spec.training.compile": True},
    ),
    _training("precision-unknown", {"spec.training.precision": "FP16"}, "spec.training.precision"),
    _training("compile-string", {"spec.training.compile": "yes"}, "spec.training.compile"),
]

_ENVIRONMENT = [
    _command(
        "env-of-all-kinds",
        {
            "spec.env": [
                {"name": "OMP_NUM_THREADS", "value": "4"},
                {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
                {"name": "SETTING", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
                {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
                {
                    "name": "LIMIT",
                    "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}},
                },
            ],
            "spec.envFrom": [{"configMapRef": {"name": "c"}}, {"prefix": "S_", "secretRef": {"name": "s"}}],
        },
    ),
    _command(
        "env-rank", {"spec.env": [{"name": "RANK", "value": "0"}]}, "spec.env[0].name", "the launcher sets"
    ),
    _command(
        "env-master-addr",
        {"spec.env": [{"name": "A", "value": "b"}, {"name": "MASTER_ADDR", "value": "h"}]},
        "spec.env[1].name",
        "the launcher sets",
    ),
    _command(
        "env-of-ours",
        {"spec.env": [{"name": "XEONTRAIN_ROUND", "value": "1"}]},
        "spec.env[0].name",
        "belong to the launcher",
    ),
    _command(
        "env-of-ours-to-be",
        {"spec.env": [{"name": "XEONTRAIN_NEW", "value": "1"}]},
        "spec.env[0].name",
        "belong to the launcher",
    ),
    _command(
        "env-like-ours", {"spec.env": [{"name": "MY_RANK", "value": "0"}, {"name": "rank", "value": "0"}]}
    ),
    _command(
        "env-twice", {"spec.env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}, "spec.env[1]"
    ),
    _command("env-number", {"spec.env": [{"name": "A", "value": 1}]}, "spec.env[0].value"),
    _command("env-without-name", {"spec.env": [{"value": "1"}]}, "spec.env[0].name"),
    _command(
        "env-value-and-value-from",
        {
            "spec.env": [
                {"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
            ]
        },
        "spec.env[0]",
        "value or valueFrom, not both",
    ),
    _command(
        "env-value-from-nothing",
        {"spec.env": [{"name": "A", "valueFrom": {}}]},
        "spec.env[0].valueFrom",
        "exactly one of",
    ),
    _command("env-with-equals-sign", {"spec.env": [{"name": "A=B", "value": "1"}]}, "spec.env[0].name"),
    _command(
        "env-from-two",
        {"spec.envFrom": [{"configMapRef": {"name": "c"}, "secretRef": {"name": "s"}}]},
        "spec.envFrom[0]",
        "exactly one of",
    ),
]

_VOLUMES = [
    _training(
        "volumes",
        {
            "spec.volumes": [
                {"name": "data", "projected": {"sources": [{"configMap": {"name": "part-1"}}]}},
                {"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}},
            ],
            "spec.volumeMounts": [
                {"name": "data", "mountPath": "/data", "readOnly": True},
                {"name": "cache", "mountPath": "/cache", "subPath": "hub"},
            ],
        },
    ),
    _training(
        "mount-of-no-volume",
        {"spec.volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        "spec.volumeMounts",
        "not in volumes",
    ),
    _training("volume-without-name", {"spec.volumes": [{"emptyDir": {}}]}, "spec.volumes[0].name"),
    _training(
        "volume-twice",
        {"spec.volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]},
        "spec.volumes[1]",
    ),
    _training(
        "volume-of-ours",
        {"spec.volumes": [{"name": "xeontrain-state", "emptyDir": {}}]},
        "spec.volumes",
        "operator's own volumes",
    ),
    *(
        _training(
            f"mount-over-{path.strip('/').replace('/', '-')}",
            {
                "spec.volumes": [{"name": "a", "emptyDir": {}}],
                "spec.volumeMounts": [{"name": "a", "mountPath": path}],
            },
            "spec.volumeMounts[0].mountPath",
            "mounted by the operator",
        )
        for path in ("/run/xeontrain", "/etc/xeontrain/", "/var/lib/xeontrain", "/dev/shm")
    ),
    _training(
        "mount-at-relative-path",
        {
            "spec.volumes": [{"name": "a", "emptyDir": {}}],
            "spec.volumeMounts": [{"name": "a", "mountPath": "data"}],
        },
        "spec.volumeMounts[0].mountPath",
        "absolute path",
    ),
    _training(
        "two-mounts-at-one-path",
        {
            "spec.volumes": [{"name": "a", "emptyDir": {}}],
            "spec.volumeMounts": [{"name": "a", "mountPath": "/a"}, {"name": "a", "mountPath": "/a"}],
        },
        "spec.volumeMounts[1]",
    ),
]

_STORAGE = [
    _training("storage-claim", {"spec.storage": {"claim": "models", "subPath": "team-a/x"}}),
    _training("storage-size", {"spec.storage": {"size": "10Gi", "storageClass": "fast", "retain": "Delete"}}),
    _training("storage-of-nothing", {"spec.storage": {}}, "spec.storage", "exactly one of claim"),
    _training(
        "storage-claim-and-size",
        {"spec.storage": {"claim": "m", "size": "1Gi"}},
        "spec.storage",
        "exactly one of claim",
    ),
    _training(
        "storage-class-of-claim",
        {"spec.storage": {"claim": "m", "storageClass": "fast"}},
        "spec.storage",
        "storageClass goes with size",
    ),
    _training(
        "storage-sub-path-of-size",
        {"spec.storage": {"size": "1Gi", "subPath": "a"}},
        "spec.storage",
        "subPath goes with claim",
    ),
    _training(
        "storage-delete-of-claim",
        {"spec.storage": {"claim": "m", "retain": "Delete"}},
        "spec.storage",
        "never deleted",
    ),
    _training(
        "storage-sub-path-up",
        {"spec.storage": {"claim": "m", "subPath": "a/../b"}},
        "spec.storage.subPath",
        "relative path",
    ),
    _training("storage-sub-path-with-dots", {"spec.storage": {"claim": "m", "subPath": "a..b/c"}}),
    _training("storage-size-wrong", {"spec.storage": {"size": "ten"}}, "spec.storage.size", "write a size"),
    _training(
        "checkpoint-in-full",
        {"spec.checkpoint": {"everySteps": 100, "everyMinutes": 5, "keep": 3, "resume": "/models/a"}},
    ),
    _training("checkpoint-keep-one", {"spec.checkpoint.keep": 1}, "spec.checkpoint.keep"),
]

_POLICY = [
    _training(
        "run-policy-in-full",
        {
            "spec.runPolicy": {
                "suspend": True,
                "backoffLimit": 0,
                "activeDeadlineSeconds": 3600,
                "preRunningDeadlineSeconds": 60,
                "gracePeriodSeconds": 30,
                "ttlSecondsAfterFinished": 0,
                "cleanPodPolicy": "All",
                "managedBy": "kueue.x-k8s.io/multikueue",
            }
        },
    ),
    _training("backoff-negative", {"spec.runPolicy.backoffLimit": -1}, "spec.runPolicy.backoffLimit"),
    _training(
        "deadline-zero", {"spec.runPolicy.activeDeadlineSeconds": 0}, "spec.runPolicy.activeDeadlineSeconds"
    ),
    _training(
        "grace-too-short", {"spec.runPolicy.gracePeriodSeconds": 5}, "spec.runPolicy.gracePeriodSeconds"
    ),
    _training(
        "clean-policy-unknown", {"spec.runPolicy.cleanPodPolicy": "Some"}, "spec.runPolicy.cleanPodPolicy"
    ),
    _training(
        "managed-by-unknown",
        {"spec.runPolicy.managedBy": "me"},
        "spec.runPolicy.managedBy",
        "or leave it out",
    ),
    _training("run-policy-null-is-default", {"spec.runPolicy": None}),
    _training(
        "pod-template-in-full",
        {
            "spec.podTemplate": {
                "labels": {"team": "nlp", "example.com/cost": "42"},
                "annotations": {"note": "any text, even with blanks"},
                "serviceAccountName": "trainer",
                "securityContext": {"fsGroup": 1000},
                "containerSecurityContext": {"runAsUser": 1000},
                "containers": [
                    {"name": "sidecar", "image": "busybox", "resources": {"limits": {"cpu": "100m"}}}
                ],
            }
        },
    ),
    _training(
        "container-named-trainer",
        {"spec.podTemplate.containers": [{"name": "trainer"}]},
        "spec.podTemplate.containers",
        "choose another",
    ),
    _training(
        "pod-label-with-blank", {"spec.podTemplate.labels": {"team": "a b"}}, "spec.podTemplate.labels"
    ),
]

_UNKNOWN = [
    _training("unknown-field", {"spec.wrokers": 2}, "spec.wrokers"),
    _training(
        "unknown-field-deep", {"spec.training.hyperparameters.lr": 0.1}, "spec.training.hyperparameters.lr"
    ),
    _training("known-field-in-wrong-place", {"spec.batchSize": 16}, "spec.batchSize"),
    _training("unknown-field-in-env", {"spec.env": [{"name": "A", "vale": "1"}]}, "spec.env[0].vale"),
    _training("unknown-field-at-the-root", {"specs": {}}, "specs"),
]

CASES: tuple[Case, ...] = (
    *_NAMES,
    *_KIND_OF_WORK,
    *_WORKERS,
    *_RESOURCES,
    *_IMAGE_AND_PLACEMENT,
    *_NETWORK,
    *_TRAINING,
    *_ENVIRONMENT,
    *_VOLUMES,
    *_STORAGE,
    *_POLICY,
    *_UNKNOWN,
)
