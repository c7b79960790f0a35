"""The nodes and pods of the demo.

Requests are sized so that all pods together take a bit more than half of the cluster: everything
that is meant to fit does, and one sees the nodes fill up.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from apistub.samples import sample_node
from apistub.storage.kinds import Object

NAMESPACE: Final = "demo"
SCHEDULER: Final = "stowage"
FOREIGN_SCHEDULER: Final = "somebody-elses-scheduler"
GATE: Final = "demo.stowage.dev/wait"
LATE_POOL: Final = "late"
POOL_LABEL: Final = "demo.stowage.dev/pool"
GIANT: Final = "giant"
FOREIGN: Final = "not-ours"
URGENT: Final = "urgent"
EVICTABLE: Final = "print"
"""How the names begin of the pods that hold what the urgent one needs."""
ZONES: Final = 3

_ZONE: Final = "topology.kubernetes.io/zone"
_HOSTNAME: Final = "kubernetes.io/hostname"
_MACHINE: Final = "node.kubernetes.io/instance-type"
_GPU: Final = "demo.stowage.dev/gpu"
_GPUS_PER_NODE: Final = 4
_LICENSED_NODE: Final = 2
_LICENCE: Final = "demo.stowage.dev/licence"
_LICENCES: Final = 2
_LICENSED: Final = {"limits": {_LICENCE: "1"}}
_IMPORTANT: Final = "demo-important"
_EVERY_BATCH_NODE: Final = 9
_EVERY_GPU_NODE: Final = 12
_CPU_PER_NODE_MILLI: Final = 9_333
_FILL: Final = 0.55
_SMALLEST_CPU_MILLI: Final = 20
_LARGEST_CPU_MILLI: Final = 900
_MEMORY_MIB_PER_CPU: Final = 2_048
_SIZES: Final = (0.5, 1.0, 1.5)
_BATCH_TAINT: Final = {"key": "demo.stowage.dev/batch", "value": "only", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class Load:
    """Everything the demo will create."""

    nodes: Sequence[Object]
    late_nodes: Sequence[Object]
    """Added on the way; the pods of the late pool wait for them."""
    pods: Sequence[Object]
    """In the order they are submitted."""
    important: Object
    """The PriorityClass of the urgent pod."""
    urgent: Object
    """Comes last, and finds that less important pods have what it needs."""
    licensed: str
    """The node where that is."""

    @property
    def expected(self) -> frozenset[str]:
        """The names of the pods that must get a node."""
        names = (pod["metadata"]["name"] for pod in self.pods)
        return frozenset(name for name in names if name not in {GIANT, FOREIGN})


def make_load(nodes: int, pods: int, seed: int, ready_since: str = "") -> Load:
    """The load for a cluster of some nodes.

    Args:
        nodes: how many there are from the beginning.
        pods: how many pods are submitted.
        seed: for sizes and order.
        ready_since: when the nodes reported in, as the API writes times.
    """
    random = Random(seed)  # noqa: S311 - a repeatable load, not a secret
    late = max(2, nodes // 20)
    return Load(
        nodes=[_node(index, ready_since) for index in range(nodes)],
        late_nodes=[_late_node(nodes + index, ready_since) for index in range(late)],
        pods=_pods(nodes, late, pods, random),
        important={"metadata": {"name": _IMPORTANT}, "value": 1000},
        urgent=_pod(URGENT, URGENT, {"cpu": "10m"}, {**_LICENSED, "priorityClassName": _IMPORTANT}),
        licensed=sample_node(_LICENSED_NODE, ZONES)["metadata"]["name"],
    )


def _node(index: int, ready_since: str) -> Object:
    node = sample_node(index, ZONES, ready_since)
    if index % _EVERY_BATCH_NODE == _EVERY_BATCH_NODE - 1:
        node["metadata"]["labels"][POOL_LABEL] = "batch"
        node["spec"] = {"taints": [_BATCH_TAINT]}
    elif index % _EVERY_GPU_NODE == 1:
        _offer(node, _GPU, _GPUS_PER_NODE)
    elif index == _LICENSED_NODE:
        _offer(node, _LICENCE, _LICENCES)
    return node


def _offer(node: Object, resource: str, count: int) -> None:
    for resources in ("capacity", "allocatable"):
        node["status"][resources] = {**node["status"][resources], resource: str(count)}


def _late_node(index: int, ready_since: str) -> Object:
    node = sample_node(index, ZONES, ready_since)
    node["metadata"]["labels"][POOL_LABEL] = LATE_POOL
    return node


def _pods(nodes: int, late: int, count: int, random: Random) -> list[Object]:
    cpu = min(max(_FILL * nodes * _CPU_PER_NODE_MILLI / count, _SMALLEST_CPU_MILLI),
              _LARGEST_CPU_MILLI)  # fmt: skip
    sizes = _sizes(round(cpu), random)
    special = [
        *_named("db", min(count // 30, nodes // 6), sizes, _apart("db")),
        *_named("gpu", min(count // 40, nodes // _EVERY_GPU_NODE), sizes, {"limits": {_GPU: "1"}}),
        *_named(EVICTABLE, _LICENCES, sizes, _LICENSED),
        *_named("report", min(count // 20, late * 3), sizes, _in_pool(LATE_POOL)),
        *_named("gated", count // 25, sizes, {"schedulingGates": [{"name": GATE}]}),
        _pod(GIANT, GIANT, {"cpu": "1000", "memory": "4Ti"}, {}),
        _pod(FOREIGN, "foreign", {"cpu": "100m"}, {"schedulerName": FOREIGN_SCHEDULER}),
    ]
    batch = list(_named("batch", count // 15, sizes, _batch()))
    rest = count - len(special) - len(batch)
    api = rest // 3
    common = [
        *_named("web", rest - api, sizes, _spread("web")),
        *_named("api", api, sizes, _preferring_large()),
        *batch,
    ]
    random.shuffle(common)
    # The special ones come early, so that there is something to watch while they wait.
    position = len(common) // 4
    return common[:position] + special + common[position:]


def _sizes(cpu_milli: int, random: Random) -> Iterator[Object]:
    """Requests around an average, for ever."""
    while True:
        cpu = max(round(cpu_milli * random.choice(_SIZES)), 10)
        yield {"cpu": f"{cpu}m", "memory": f"{max(cpu * _MEMORY_MIB_PER_CPU // 1000, 8)}Mi"}


def _named(app: str, count: int, sizes: Iterator[Object], spec: Object) -> Iterator[Object]:
    for index in range(count):
        yield _pod(f"{app}-{index:04d}", app, next(sizes), spec)


def _pod(name: str, app: str, requests: Object, spec: Object) -> Object:
    rest = dict(spec)
    resources = {"requests": requests, "limits": rest.pop("limits", {})}
    container = {"name": app, "image": f"demo.stowage.dev/{app}:1", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": app}},
        "spec": {"schedulerName": SCHEDULER, "containers": [container], **rest},
    }


def _apart(app: str) -> Object:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": _HOSTNAME}
    return {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    }


def _spread(app: str) -> Object:
    constraint = {
        "maxSkew": 5,
        "topologyKey": _ZONE,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"topologySpreadConstraints": [constraint]}


def _preferring_large() -> Object:
    expression = {"key": _MACHINE, "operator": "In", "values": ["large"]}
    preference = {"weight": 50, "preference": {"matchExpressions": [expression]}}
    return {
        "affinity": {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}
        }
    }


def _in_pool(pool: str) -> Object:
    return {"nodeSelector": {POOL_LABEL: pool}}


def _batch() -> Object:
    toleration = {"key": _BATCH_TAINT["key"], "operator": "Exists"}
    return {**_in_pool("batch"), "tolerations": [toleration]}
