"""Clusters for pages to show: made up here, so that the same command shows the same."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from tests.support.manifests import Manifest, node_manifest, pod_manifest

NOW: Final = datetime(2026, 1, 31, 12, tzinfo=UTC)
_ZONE: Final = "topology.kubernetes.io/zone"
_GPU: Final = "nvidia.com/gpu"


def cluster(nodes: int, now: datetime = NOW) -> Iterator[Manifest]:
    """Nodes in three zones, some with GPUs, some cordoned; pods that run, and pods that wait."""
    random = Random(1)

    def ago(seconds: int) -> str:
        return (now - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")

    free = {}
    for number in range(nodes):
        name, cores = f"node-{number:0{len(str(nodes - 1))}}", random.choice((8, 16, 32))
        room = {"cpu": str(cores), "memory": f"{cores * 4}Gi"}
        more: dict[str, object] = {}
        if number % 4 == 3:
            room[_GPU] = "8"
            more = {"taints": [{"key": _GPU, "effect": "NoSchedule"}]}
        elif number % 11 == 10:
            more = {"unschedulable": True}
        free[name] = 1000 * cores
        yield node_manifest(
            name, allocatable=room, labels={_ZONE: f"zone-{number % 3 + 1}"}, **more
        )
    names = sorted(free)
    for number in range(nodes * 6):
        node, milli = names[number % nodes], random.choice((500, 1000, 2000, 4000))
        if free[node] < milli:
            continue
        free[node] -= milli
        pod = pod_manifest(
            f"web-{number}",
            requests={"cpu": f"{milli}m", "memory": f"{milli // 500}Gi"},
            namespace="shop",
            created=ago(90_000 - number),
            nodeName=node,
        )
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"web-{number % 3}"}
        pod["metadata"]["ownerReferences"] = [{**owner, "uid": owner["name"], "controller": True}]
        yield pod
    for number in range(6):
        yield pod_manifest(
            f"report-{number}",
            requests={"cpu": "40"},
            namespace="data",
            created=ago(40 + 400 * number),
        )
    for number in range(3):
        yield pod_manifest(
            f"train-{number}",
            requests={"cpu": "4", _GPU: "4"},
            namespace="ml",
            created=ago(4_000 + number),
        )
    yield pod_manifest(
        "index-0", nodeSelector={"disk": "nvme"}, namespace="search", created=ago(100_000)
    )
    gates = [{"name": "example.com/quota"}]
    yield pod_manifest("night", schedulingGates=gates, namespace="data", created=ago(7_300))
