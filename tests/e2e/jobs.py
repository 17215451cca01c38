"""Jobs as a user writes them, and what a user sees of them through kubectl."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.cluster.cluster import OPERATOR_NAMESPACE, POOL_LABEL, SYSTEM_TAINT, Cluster

Document = dict[str, Any]

POLL_SECONDS = 0.5
ENDED = ("Succeeded", "Failed")


def command_job(name: str, *, image: str, script: str, **spec: Any) -> Document:
    """Returns a job of two workers whose ranks run a Python script."""
    return {
        "apiVersion": "xeontrain.dev/v1alpha1",
        "kind": "XeonTrainJob",
        "metadata": {"name": name},
        "spec": {
            "workers": 2,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "resources": {"cpu": 1, "memory": "512Mi"},
            "command": ["python3", "-c", script],
            **spec,
        },
    }


def small_job(name: str, *, image: str, script: str, **spec: Any) -> Document:
    """Returns the same with a sixth of a CPU a worker, on the node that pins nothing: many run at once."""
    placement = {
        "nodeSelector": {POOL_LABEL: "system"},
        "tolerations": [{"key": SYSTEM_TAINT["key"], "operator": "Exists"}],
        "spread": "Packed",
    }
    resources = {"cpu": "150m", "memory": "128Mi"}
    shape = {"pinning": "Disabled", "placement": placement, "resources": resources}
    return command_job(name, image=image, script=script, **{**shape, **spec})


def training_job(name: str, **training: Any) -> Document:
    """Returns a job of one worker that trains on the files of the ConfigMap `data`, mounted at /data."""
    return {
        "apiVersion": "xeontrain.dev/v1alpha1",
        "kind": "XeonTrainJob",
        "metadata": {"name": name},
        "spec": {
            "workers": 1,
            "resources": {"cpu": 1, "memory": "3Gi"},
            "volumes": [{"name": "data", "configMap": {"name": "data"}}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "training": {
                "task": "text-classification",
                "model": "sentence-transformers/all-MiniLM-L6-v2",
                "dataset": {"files": {"train": ["/data/train.csv"]}},
                "hyperparameters": {"batchSize": 4, "maxSteps": 20, "maxLength": 16},
                "precision": "FP32",
                **training,
            },
        },
    }


@dataclass(frozen=True)
class Namespace:
    """A namespace of the cluster and the few things that a user does in it."""

    cluster: Cluster
    name: str

    def kubectl(self, *arguments: str, **options: Any) -> str:
        """Returns what kubectl prints in this namespace."""
        return str(self.cluster.kubectl("-n", self.name, *arguments, **options).stdout)

    def apply(self, *documents: Document) -> None:
        """Applies documents with the client-side `kubectl apply` that people use."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        self.kubectl("apply", "-f", "-", input=json.dumps(items))

    def get(self, kind: str, name: str) -> Document | None:
        """Returns an object, or None where there is none."""
        text = self.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
        return json.loads(text) if text else None

    def list(self, kind: str) -> list[Document]:
        """Returns all objects of a kind."""
        return list(json.loads(self.kubectl("get", kind, "-o", "json"))["items"])

    def job(self, name: str) -> Document:
        """Returns a job that must exist."""
        found = self.get("xeontrainjob", name)
        assert found is not None, f"job {name} is gone"
        return found

    def wait(self, what: str, check: Callable[[], Any], *, timeout_seconds: float) -> Any:
        """Polls until `check` returns something true and returns that; fails with what is known then."""
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            found = check()
            if found:
                return found
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"{what}: not within {timeout_seconds:.0f} s\n{self.story()}")

    def wait_for_phase(self, name: str, *phases: str, timeout_seconds: float = 120) -> Document:
        """Returns the job once it is in one of the phases; fails at once where it ended in another."""

        def check() -> Document | None:
            job = self.job(name)
            phase = job.get("status", {}).get("phase")
            if phase in ENDED and phase not in phases:
                raise AssertionError(f"job {name} is {phase}, not {phases}\n{self.story()}")
            return job if phase in phases else None

        found: Document = self.wait(f"job {name} {phases}", check, timeout_seconds=timeout_seconds)
        return found

    def wait_for_condition(
        self, name: str, type_: str, *, status: str, timeout_seconds: float = 60
    ) -> Document:
        """Returns the job's condition once it has that status."""
        found: Document = self.wait(
            f"condition {type_}={status} of {name}",
            lambda: (c := condition(self.job(name), type_)) and c["status"] == status and c,
            timeout_seconds=timeout_seconds,
        )
        return found

    def wait_for_log(self, pod: str, text: str, *, timeout_seconds: float = 120) -> str:
        """Returns the pod's log once it holds the text."""

        def check() -> str | None:
            log = self.cluster.kubectl("-n", self.name, "logs", pod, check=False).stdout
            return log if text in log else None

        found: str = self.wait(f"{text!r} in the log of {pod}", check, timeout_seconds=timeout_seconds)
        return found

    def story(self) -> str:
        """Returns what a person would look at when a job does not do what it should."""
        parts = [
            self.kubectl("get", "xeontrainjobs,statefulsets,pods,pvc", "-o", "wide", check=False),
            self.kubectl("describe", "xeontrainjobs", check=False),
            self.kubectl("get", "events", "--sort-by=.lastTimestamp", check=False),
        ]
        operator = ("logs", "-n", OPERATOR_NAMESPACE, "deployment/xeontrain-operator", "--tail=40")
        parts.append(f"--- operator\n{self.cluster.kubectl(*operator, check=False).stdout}")
        for pod in self.list("pods"):
            log = self.kubectl("logs", pod["metadata"]["name"], "--tail=30", check=False)
            parts.append(f"--- {pod['metadata']['name']}\n{log}")
        return "\n".join(parts)


def condition(job: Document, type_: str) -> Document | None:
    """Returns the job's condition of a type."""
    conditions = job.get("status", {}).get("conditions", [])
    return next((found for found in conditions if found["type"] == type_), None)
