"""Changes that make pods schedulable although no QueueingHintFn of kube-scheduler returns Queue.

Each change has its own nodes and namespace, so that several changes and two schedulers can be
tested in one cluster at the same time.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from e2e.support.cluster import Cluster
from e2e.support.objects import Json, make_node, make_pod
from e2e.support.waiting import wait_for

EQUAL_PODS = 5
SETTLE_SECONDS = 5.0
"""Wait between rejection and change: backoff ends, and no pod is retried."""
TRIAL_LABEL = "stowage.dev/trial"
"""Node label with the namespace of a trial; the trial's pods select it."""

_HOST = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True)
class UnhintedChange:
    """A cluster change that no queueing hint covers; functions take cluster and namespace.

    Attributes:
        description: printed with the results.
        nodes: suffix of the node name to options of ``make_node``.
        running: pods that run from the start: name to app label and node.
        spec: fields of the pending pods' spec.
        apply: makes the change.
    """

    description: str
    nodes: dict[str, Json]
    running: dict[str, tuple[str, str]]
    spec: Json
    apply: Callable[[Cluster, str], None]


def _term(app: str, key: str = _HOST, **fields: Json) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **fields}


def _required(kind: str, *terms: Json) -> Json:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def _delete(cluster: Cluster, path: str) -> None:
    cluster.run(cluster.api.delete(path))


NEAR = UnhintedChange(
    "required pod affinity with a namespaceSelector: a matching pod is bound",
    {"n": {}},
    {},
    # Each trial's namespace has the label; the pods of other trials run on other nodes.
    _required(
        "podAffinity",
        _term("x", namespaceSelector={"matchExpressions": [{"key": "team", "operator": "Exists"}]}),
    ),
    lambda cluster, namespace: _run(cluster, namespace, "x", "x", "n"),
)
NODE_GONE = UnhintedChange(
    "required pod anti-affinity: the matching pod's node is deleted, its pods are not",
    {"n": {"zone": "a"}, "m": {"zone": "a"}},
    {"x": ("x", "n")},
    _required("podAntiAffinity", _term("x", _ZONE)),
    lambda cluster, namespace: _delete(cluster, f"/api/v1/nodes/{namespace}-n"),
)
TWO_TERMS = UnhintedChange(
    "required pod anti-affinity to two apps: the only matching pod is deleted",
    {"n": {}},
    {"x": ("x", "n")},
    _required("podAntiAffinity", _term("x"), _term("y")),
    lambda cluster, namespace: cluster.delete_pods(namespace, ["x"]),
)
HANGS = UnhintedChange(
    "topology spread: a counted pod is deleted, and stays Terminating",
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
UNHINTED_CHANGES = {"near": NEAR, "node-gone": NODE_GONE, "two-terms": TWO_TERMS, "hangs": HANGS}


def _run(cluster: Cluster, namespace: str, name: str, app: str, node: str) -> None:
    """Create a pod that is bound from the start and stays terminating when deleted."""
    spec: Json = {"nodeName": f"{namespace}-{node}", "terminationGracePeriodSeconds": 3600}
    cluster.create_pods([make_pod(name, namespace=namespace, labels={"app": app}, **spec)])


class Trial:
    """One change in one namespace, with pending pods for one or more schedulers.

    Attributes:
        namespace: namespace of the trial.
    """

    def __init__(
        self, cluster: Cluster, change: UnhintedChange, namespace: str, schedulers: Sequence[str]
    ) -> None:
        self._cluster = cluster
        self._change = change
        self._schedulers = schedulers
        self.namespace = namespace

    def prepare(self) -> None:
        """Create nodes and pods, and wait until the scheduler has rejected all pending pods."""
        cluster, namespace = self._cluster, self.namespace
        cluster.create_namespace(namespace)
        labels = {"metadata": {"labels": {"team": namespace}}}
        cluster.run(cluster.api.patch(f"/api/v1/namespaces/{namespace}", labels))
        cluster.create_nodes(
            [
                make_node(f"{namespace}-{name}", labels={TRIAL_LABEL: namespace}, **options)
                for name, options in self._change.nodes.items()
            ]
        )
        for name, (app, node) in self._change.running.items():
            _run(cluster, namespace, name, app, node)
        for number in range(EQUAL_PODS):
            self.add(number)
        wait_for(self._all_were_rejected, f"the pods of {namespace} to be rejected")

    def add(self, number: int) -> None:
        """Create one more pending pod for each scheduler."""
        self._cluster.create_pods(
            make_pod(
                f"{scheduler}-{number}",
                namespace=self.namespace,
                scheduler_name=scheduler,
                requests={"cpu": "200m"},
                nodeSelector={TRIAL_LABEL: self.namespace},
                **self._change.spec,
            )
            for scheduler in self._schedulers
        )

    def apply(self) -> None:
        """Make the change."""
        self._change.apply(self._cluster, self.namespace)

    def bound(self, scheduler: str) -> set[int]:
        """Return the numbers of a scheduler's bound pods."""
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
    """Wait until backoff ends, so that only the change can requeue the pods."""
    time.sleep(SETTLE_SECONDS)
