"""The cluster's network: a bridge a node, DNS with kubeadm's values, Services by kube-proxy."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

CLUSTER_DOMAIN = "cluster.local"
DNS_ADDRESS = "10.250.0.10"
# kubeadm's values: what a real cluster's DNS remembers of a pod that has been replaced.
DNS_SECONDS = 30


def cni_config(*, bridge: str, subnet: str, data_dir: Path) -> str:
    """Returns the CNI list of a node: one bridge with its own range of pod addresses.

    The bridges lie in one network namespace, so the kernel routes between the nodes' pods.
    """
    plugin = {
        "type": "bridge",
        "bridge": bridge,
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(data_dir),
            "ranges": [[{"subnet": subnet}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return json.dumps({"cniVersion": "1.0.0", "name": bridge, "plugins": [plugin]})


def corefile(*, kubeconfig: Path) -> str:
    """Returns CoreDNS's configuration: kubeadm's, with a kubeconfig in place of a pod's account."""
    return f"""\
.:53 {{
  bind {DNS_ADDRESS}
  errors
  kubernetes {CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
    kubeconfig {kubeconfig}
    pods insecure
    ttl {DNS_SECONDS}
  }}
  cache {DNS_SECONDS}
  loadbalance
}}
"""


def proxy_config(*, kubeconfig: Path, pod_cidr: str) -> str:
    """Returns a KubeProxyConfiguration.

    masqueradeAll: a pod may reach, through a Service, a pod on its own bridge, whose answer would otherwise
    take the short way and miss the translation.
    """
    values = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "mode": "iptables",
        "clusterCIDR": pod_cidr,
        "iptables": {"masqueradeAll": True},
        # The table's size belongs to the whole machine: leave it.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpCloseWaitTimeout": "0s", "tcpEstablishedTimeout": "0s"},
    }
    return yaml.safe_dump(values, sort_keys=False)
