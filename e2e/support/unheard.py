"""Changes that let pods fit and that kube-scheduler's queueing hints do not take.

Each way has nodes and a namespace of its own, so several can be tried in one cluster, and by two
schedulers at once: the pods that wait do not concern each other.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from e2e.support.cluster import Cluster
from e2e.support.objects import Json, make_node, make_pod
from e2e.support.waiting import wait_for

EQUAL_PODS = 5
SETTLE_SECONDS = 5.0
"""Between the rejection of the pods and the change: their back-off is over, nothing is retried."""
WAY = "stowage.dev/way"
"""Label of the nodes of a way; its pods are kept to them."""

_HOST = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True)
class Way:
    """One such change; functions take the cluster and the namespace of the way.

    Attributes:
        what: for people.
        nodes: what nodes there are, by suffix of the name, with their options.
        running: the pods that run from the beginning, by name, each with its app and node.
        spec: fields of the specification of the waiting pods.
        change: the change.
    """

    what: str
    nodes: dict[str, Json]
    running: dict[str, tuple[str, str]]
    spec: Json
    change: Callable[[Cluster, str], None]


def _term(app: str, key: str = _HOST, **fields: Json) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **fields}


def _required(kind: str, *terms: Json) -> Json:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def _delete(cluster: Cluster, path: str) -> None:
    cluster.run(cluster.api.delete(path))


NEAR = Way(
    "near a pod in namespaces of a label: the pod comes",
    {"n": {}},
    {},
    # The namespace of each way has the label; pods of the others are on other nodes.
    _required(
        "podAffinity",
        _term("x", namespaceSelector={"matchExpressions": [{"key": "team", "operator": "Exists"}]}),
    ),
    lambda cluster, namespace: _run(cluster, namespace, "x", "x", "n"),
)
NODE_GONE = Way(
    "away from a pod: its node goes, its pods stay",
    {"n": {"zone": "a"}, "m": {"zone": "a"}},
    {"x": ("x", "n")},
    _required("podAntiAffinity", _term("x", _ZONE)),
    lambda cluster, namespace: _delete(cluster, f"/api/v1/nodes/{namespace}-n"),
)
TWO_TERMS = Way(
    "away from two pods: the only one that is there ends",
    {"n": {}},
    {"x": ("x", "n")},
    _required("podAntiAffinity", _term("x"), _term("y")),
    lambda cluster, namespace: cluster.delete_pods(namespace, ["x"]),
)
HANGS = Way(
    "spread: a pod that counts is being deleted, and hangs",
    {"n": {"zone": "a"}, "m": {"zone": "b", "allocatable": {"cpu": "100m"}}},
    {"x": ("x", "n"), "y": ("x", "n")},
    {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": _ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "x"}},
            }
        ]
    },
    lambda cluster, namespace: _delete(cluster, f"/api/v1/namespaces/{namespace}/pods/x"),
)
WAYS = {"near": NEAR, "node-gone": NODE_GONE, "two-terms": TWO_TERMS, "hangs": HANGS}


def _run(cluster: Cluster, namespace: str, name: str, app: str, node: str) -> None:
    """A pod that is on a node from the start; nothing ends it gracefully."""
    spec: Json = {"nodeName": f"{namespace}-{node}", "terminationGracePeriodSeconds": 3600}
    cluster.create_pods([make_pod(name, namespace=namespace, labels={"app": app}, **spec)])


class Trial:
    """A way that is tried, with pods of some schedulers.

    Attributes:
        namespace: the way's own.
    """

    def __init__(
        self, cluster: Cluster, way: Way, namespace: str, schedulers: Sequence[str]
    ) -> None:
        self._cluster = cluster
        self._way = way
        self._schedulers = schedulers
        self.namespace = namespace

    def prepare(self) -> None:
        """Make nodes and pods, and wait until all pods that are to wait have been rejected."""
        cluster, namespace = self._cluster, self.namespace
        cluster.create_namespace(namespace)
        labels = {"metadata": {"labels": {"team": namespace}}}
        cluster.run(cluster.api.patch(f"/api/v1/namespaces/{namespace}", labels))
        cluster.create_nodes(
            [
                make_node(f"{namespace}-{name}", labels={WAY: namespace}, **options)
                for name, options in self._way.nodes.items()
            ]
        )
        for name, (app, node) in self._way.running.items():
            _run(cluster, namespace, name, app, node)
        for number in range(EQUAL_PODS):
            self.add(number)
        wait_for(self._all_were_rejected, f"the pods of {namespace} to be rejected", 60)

    def add(self, number: int) -> None:
        """Create one more of the equal pods for each scheduler."""
        self._cluster.create_pods(
            make_pod(
                f"{scheduler}-{number}",
                namespace=self.namespace,
                scheduler_name=scheduler,
                requests={"cpu": "200m"},
                nodeSelector={WAY: self.namespace},
                **self._way.spec,
            )
            for scheduler in self._schedulers
        )

    def change(self) -> None:
        """Let the change happen."""
        self._way.change(self._cluster, self.namespace)

    def bound(self, scheduler: str) -> set[int]:
        """The numbers of a scheduler's pods that have a node."""
        prefix = f"{scheduler}-"
        return {
            int(pod["metadata"]["name"].removeprefix(prefix))
            for pod in self._cluster.pods(self.namespace)
            if pod["metadata"]["name"].startswith(prefix) and pod["spec"].get("nodeName")
        }

    def _all_were_rejected(self) -> bool:
        waiting = [
            pod
            for pod in self._cluster.pods(self.namespace)
            if pod["spec"]["schedulerName"] in self._schedulers and not pod["spec"].get("nodeName")
        ]
        rejected = [
            pod
            for pod in waiting
            for condition in pod["status"].get("conditions", ())
            if condition["type"] == "PodScheduled" and condition["reason"] == "Unschedulable"
        ]
        return len(rejected) == EQUAL_PODS * len(self._schedulers)


def settle() -> None:
    """Let back-off end, so that only the change can bring the pods back."""
    time.sleep(SETTLE_SECONDS)
