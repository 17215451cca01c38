"""Names of a job's children, and of its pods in DNS.

All children but the log bear the job's own name: the resource's rule (an RFC 1035 label of at most 52
characters) is what makes every one of them legal, and no two jobs of a namespace can meet in a suffix.
"""

from __future__ import annotations

from xeontrain_operator.api.v1alpha1 import Metadata


def pod_name(job: Metadata, *, worker: int) -> str:
    """Name of a worker's pod, as the StatefulSet controller forms it."""
    return f"{job.name}-{worker}"


def coordinator_host(job: Metadata, *, cluster_domain: str) -> str:
    """DNS name of worker 0. The trailing dot keeps the resolver from trying the search domains first."""
    return f"{pod_name(job, worker=0)}.{job.name}.{job.namespace}.svc.{cluster_domain.strip('.')}."


def job_folder(job: Metadata) -> str:
    """The job's own folder in its storage: a job made again under the same name gets another."""
    return f"{job.name}-{job.uid[:8]}"


def log_config_map_name(job: Metadata) -> str:
    """ConfigMap that keeps a finished job's log; the UID keeps it apart from a job called `<name>-log`."""
    return f"{job.name}-log-{job.uid[:8]}"


def claim_name(job: Metadata, *, worker: int) -> str:
    """Name of the claim that the StatefulSet controller makes for a worker (`storage.size`)."""
    return f"{STORAGE_VOLUME}-{pod_name(job, worker=worker)}"


STORAGE_VOLUME = "xeontrain-storage"
"""Name of the storage volume, and so the prefix of each worker's claim. The resource refuses volumes of
the user's whose names begin like this."""
