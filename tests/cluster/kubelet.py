"""The kubelet of one node: its configuration as the platform team of a real cluster would write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.cluster import containerd, cpus
from tests.cluster.cpus import Pool
from tests.cluster.network import CLUSTER_DOMAIN, DNS_ADDRESS

CPU_MANAGER_STATE = "cpu_manager_state"


def config(
    name: str,
    *,
    address: str,
    cgroup_root: str,
    folder: Path,
    pool: Pool | None,
    taints: list[dict[str, str]],
) -> str:
    """Returns a KubeletConfiguration.

    With a pool the node gives its CPUs out exclusively (static policy, one NUMA node); without, it does not.
    """
    values: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "healthzBindAddress": address,
        "readOnlyPort": 0,
        # Nobody but this cluster's own processes can reach the port.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{containerd.socket(name)}",
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": "",
        "podLogsDir": str(folder / "pod-logs"),
        "volumePluginDir": str(folder / "volume-plugins"),
        "registerWithTaints": taints,
        **_cgroups(cgroup_root),
        **_timing(),
        **_thresholds(),
        **(_exclusive_cpus(pool) if pool else {"cpuManagerPolicy": "none"}),
    }
    return yaml.safe_dump(values, sort_keys=False)


def _exclusive_cpus(pool: Pool) -> dict[str, Any]:
    return {
        "cpuManagerPolicy": "static",
        "cpuManagerReconcilePeriod": "2s",
        "reservedSystemCPUs": cpus.render(pool.reserved),
        "topologyManagerPolicy": "single-numa-node",
    }


def _cgroups(root: str) -> dict[str, Any]:
    return {
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": root,
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": ["pods"],
        "failSwapOn": False,
        "failCgroupV1": False,
    }


def _timing() -> dict[str, Any]:
    return {"nodeStatusUpdateFrequency": "5s", "syncFrequency": "10s", "shutdownGracePeriod": "0s"}


def _thresholds() -> dict[str, Any]:
    # The disk is the whole machine's, its filling up not this node's affair; images come from no registry.
    return {
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "maxPods": 60,
        "serializeImagePulls": False,
    }
