"""Nodes to fill an empty sandbox with."""

from string import ascii_lowercase
from typing import Final

from apistub.storage.kinds import Object

REGION: Final = "sandbox"
_MACHINES: Final = (("small", "4", "16Gi"), ("medium", "8", "32Gi"), ("large", "16", "64Gi"))


def sample_node(index: int, zones: int = 3, ready_since: str = "") -> Object:
    """A ready node of one of three sizes, zones and sizes taking turns.

    Args:
        index: gives name, zone, size and address.
        zones: how many zones there are.
        ready_since: when its kubelet reported in, as the API writes times.
    """
    name = f"node-{index:04d}"
    machine, cpu, memory = _MACHINES[index // zones % len(_MACHINES)]
    resources = {"cpu": cpu, "memory": memory, "ephemeral-storage": "100Gi", "pods": "110"}
    high, low = divmod(index, 250)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "node.kubernetes.io/instance-type": machine,
                "topology.kubernetes.io/region": REGION,
                "topology.kubernetes.io/zone": f"{REGION}-{ascii_lowercase[index % zones]}",
            },
        },
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [_ready(ready_since)],
            "addresses": [
                {"type": "InternalIP", "address": f"10.0.{high}.{low + 1}"},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "stowage://1",
                "kernelVersion": "none",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.36.3",
                "machineID": name,
                "operatingSystem": "linux",
                "osImage": "Stowage's stand-in",
                "systemUUID": name,
            },
        },
    }


def _ready(since: str) -> Object:
    condition: Object = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "the stand-in says so",
    }
    if since:
        condition |= {"lastHeartbeatTime": since, "lastTransitionTime": since}
    return condition
