"""Clusters for pages to show: made up here, so that the same command shows the same."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from tests.support.device_manifests import (
    DRIVER,
    class_manifest,
    device,
    request,
    slice_manifest,
    template_manifest,
)
from tests.support.manifests import Manifest, node_manifest, pod_manifest

NOW: Final = datetime(2026, 1, 31, 12, tzinfo=UTC)
_ZONE: Final = "topology.kubernetes.io/zone"
_GPU: Final = "nvidia.com/gpu"


def cluster(nodes: int, now: datetime = NOW) -> Iterator[Manifest]:
    """Nodes in three zones, some with GPUs, some cordoned; pods that run, and pods that wait."""
    random = Random(1)
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
            created=_at(now, 90_000 - number),
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
            created=_at(now, 40 + 400 * number),
        )
    for number in range(3):
        yield pod_manifest(
            f"train-{number}",
            requests={"cpu": "4", _GPU: "4"},
            namespace="ml",
            created=_at(now, 4_000 + number),
        )
    yield pod_manifest(
        "index-0", nodeSelector={"disk": "nvme"}, namespace="search", created=_at(now, 100_000)
    )
    gates = [{"name": "example.com/quota"}]
    yield pod_manifest("night", schedulingGates=gates, namespace="data", created=_at(now, 7_300))


GATES: Final = "--feature-gates=GenericWorkload=true,GangScheduling=true"
"""Under these the groups of `busy` are looked at together."""


def busy(nodes: int, now: datetime = NOW) -> Iterator[Manifest]:
    """The same with devices, pod groups and more pods that wait: about 300 beside 5,000 nodes."""
    yield from cluster(nodes, now)
    scale = max(1, min(10, nodes // 100))
    yield class_manifest("gpu", f"device.driver == '{DRIVER}'")
    for number in range(3, nodes, 16):
        name = f"node-{number:0{len(str(nodes - 1))}}"
        yield slice_manifest(name, device("a100-0", model="a100"), device("a100-1", model="a100"))
    yield _in("ml", template_manifest("two", request("gpu", 2, _model("a100"))))
    yield _in("ml", template_manifest("newer", request("gpu", 1, _model("h100"))))
    for number in range(2 * scale):
        created = _at(now, 500 + 60 * number)
        for template in ("two", "newer"):
            claims = [{"name": "gpu", "resourceClaimTemplateName": template}]
            requests = {"cpu": "2", "memory": "8Gi"}
            name = f"tune-{template}-{number}"
            pod = pod_manifest(name, requests=requests, namespace="ml", created=created)
            yield _with(pod, resourceClaims=claims)
    for group in range(scale):
        yield _gang("ml", f"fine-{group}", 4)
        for member in range(4):
            yield pod_manifest(
                f"fine-{group}-{member}",
                requests={"cpu": "8", "memory": "16Gi", _GPU: "8" if member else "16"},
                namespace="ml",
                created=_at(now, 3_000 + 100 * group),
                tolerations=[{"key": _GPU, "operator": "Exists"}],
                schedulingGroup={"podGroupName": f"fine-{group}"},
            )
    for number in range(6 * scale):
        yield pod_manifest(
            f"cache-{number}",
            requests={"cpu": "1", "memory": "2Gi"},
            labels={"app": "cache"},
            namespace="shop",
            created=_at(now, 90 + 7 * number),
            affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_BESIDE]}},
        )
        yield pod_manifest(
            f"ledger-{number}",
            requests={"cpu": "1", "memory": "2Gi"},
            labels={"app": "ledger"},
            namespace="data",
            created=_at(now, 5 + number),
            volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": f"ledger-{number}"}}],
        )
        yield pod_manifest(
            f"heap-{number}",
            requests={"cpu": "2", "memory": "200Gi"},
            namespace="search",
            created=_at(now, 200_000 + 11 * number),
        )


_BESIDE: Final = {
    "labelSelector": {"matchLabels": {"app": "ledger"}},
    "topologyKey": _ZONE,
    "namespaces": ["data"],
}


def _at(now: datetime, seconds: int) -> str:
    return (now - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _model(name: str) -> str:
    return f"device.attributes['{DRIVER}'].model == '{name}'"


def _in(namespace: str, manifest: Manifest) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def _with(pod: Manifest, **spec: object) -> Manifest:
    """A pod whose container uses all claims of the pod."""
    pod["spec"] |= spec
    for container in pod["spec"]["containers"]:
        container["resources"]["claims"] = [{"name": "gpu"}]
    return pod


def _gang(namespace: str, name: str, least: int) -> Manifest:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulingPolicy": {"gang": {"minCount": least}}},
    }
