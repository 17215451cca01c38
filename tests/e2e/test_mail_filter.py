"""The example, from `kubectl apply` to the model on its claim."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.settings import REPOSITORY
from tests.e2e.jobs import Document, Namespace, condition

EXAMPLE = str(REPOSITORY / "examples" / "mail-filter.yaml")
# Generous: the machine may be shared, and an epoch takes four minutes on two old cores of their own.
TRAINING_SECONDS = 2400


def _exclusive_cpus(cluster: Cluster, pod: Document) -> set[int]:
    """The CPUs that the kubelet's own record gives a pod's trainer container."""
    entries = cluster.nodes[pod["spec"]["nodeName"]].exclusive_cpus()
    return set(entries[pod["metadata"]["uid"]]["trainer"])


def _cpu_set(text: str) -> set[int]:
    """The CPUs of a list such as 0-3,8."""
    spans = (part.partition("-") for part in text.split(","))
    return {cpu for first, _, last in spans for cpu in range(int(first), int(last or first) + 1)}


@pytest.mark.e2e
@pytest.mark.timeout(2700)
def test_mail_filter_succeeds_on_two_pinned_nodes(ns: Namespace, trainer_image: str) -> None:
    """Two pods on two nodes train on disjoint exclusive CPUs, and leave result, model and story."""
    ns.kubectl("apply", "-f", EXAMPLE)
    pods = ns.wait("two running pods", lambda: _running_pods(ns), timeout_seconds=60)
    granted = {pod["spec"]["nodeName"]: _exclusive_cpus(ns.cluster, pod) for pod in pods}
    assert len(granted) == 2, "each worker has a node of its own"
    first, second = granted.values()
    assert first.isdisjoint(second), "the nodes share this machine, so their exclusive CPUs must differ"

    running = ns.wait("progress", lambda: _with_progress(ns.job("mail-filter")), timeout_seconds=400)
    pinned = condition(running, "CPUPinned")
    assert pinned is not None
    assert pinned["status"] == "True", pinned
    seen = {worker["node"]: _cpu_set(worker["cpus"]) for worker in running["status"]["workerStatuses"]}
    assert seen == granted

    job = ns.wait_for_phase("mail-filter", "Succeeded", timeout_seconds=TRAINING_SECONDS)
    result = job["status"]["result"]
    assert result["metrics"]["accuracy"] >= 0.95
    assert result["metrics"]["worldSize"] == 2
    assert "mail-filter" in result["model"]
    assert job["status"]["progress"]["display"].startswith("100%")

    ns.wait("pods gone", lambda: not ns.list("pods"), timeout_seconds=60)
    assert ns.get("statefulset", "mail-filter") is None
    described = ns.kubectl("describe", "xeontrainjob", "mail-filter")
    for word in ("Accepted", "Succeeded", "accuracy"):
        assert word in described
    _assert_model_is_on_the_claim(ns, job)


def _running_pods(ns: Namespace) -> list[Document] | None:
    pods = [pod for pod in ns.list("pods") if pod["status"].get("phase") == "Running"]
    return pods if len(pods) == 2 else None


def _with_progress(job: Document) -> Document | None:
    progress = job.get("status", {}).get("progress", {})
    return job if progress.get("step") and progress.get("etaSeconds") is not None else None


def _assert_model_is_on_the_claim(ns: Namespace, job: Document) -> None:
    """A pod that mounts worker 0's claim, as a user's next step would, loads the model from it."""
    claim, _, folder = job["status"]["result"]["model"].partition(":")
    folder = folder.strip("/")
    script = (
        "from transformers import AutoModelForSequenceClassification as M, AutoTokenizer as T\n"
        f"m = M.from_pretrained('/m/{folder}'); t = T.from_pretrained('/m/{folder}')\n"
        "i = m(**t('win cash now', return_tensors='pt')).logits.argmax().item()\n"
        "print('LABEL', m.config.id2label[i])"
    )
    kept = ns.wait("claim", lambda: ns.get("pvc", claim), timeout_seconds=5)
    assert kept["status"]["phase"] == "Bound"
    reader = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "reader"},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000},
            "containers": [
                {
                    "name": "reader",
                    "image": "xeontrain-trainer:0.1.0",
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python3", "-c", script],
                    "volumeMounts": [{"name": "m", "mountPath": "/m"}],
                }
            ],
            "volumes": [{"name": "m", "persistentVolumeClaim": {"claimName": claim}}],
        },
    }
    ns.apply(reader)
    log = ns.wait_for_log("reader", "LABEL", timeout_seconds=120)
    assert "LABEL spam" in log or "LABEL ham" in log
    ns.kubectl("delete", "pod", "reader", "--grace-period=0", "--force")
