"""``python -m bench.bounds``: measures the worst-case cost of one pod and of one step.

For each kind of expensive pod spec it measures the step that schedules the pod, or adds it as a
running pod. It also measures how much slower decisions about other pods are afterwards. Then it
measures the longest step when many changes in a row concern many different waiting pods. Finally it
runs each case of `bench.steps`: groups in Permit, budgets, namespaces, label sets, terms,
endpoints, recordings and profiles at ten times their documented sizes.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from statistics import median
from time import thread_time_ns
from typing import Any, Final

import click
import msgspec

from bench.machine import Machine
from bench.results import Bound, Results, default_path
from bench.steps import CASES
from scheduler.api.limits import (
    MAX_HOST_PORTS,
    MAX_NODE_REQUIREMENTS,
    MAX_POD_TERMS,
    MAX_RESOURCE_NAMES,
)
from scheduler.api.objects import Node, Pod
from scheduler.api.pods import PodInfo, pod_info
from scheduler.config.load import default_configuration
from scheduler.daemon.driver.daemon import spare_collector
from scheduler.kernel.engine.events import Decide, Event, ObjectSet
from scheduler.kernel.engine.instructions import RecordEvent
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import ClusterObjects

STEP_LIMIT_MS: Final = 250
OTHERS_LIMIT: Final = 2.0
_PROFILE: Final = "bench"
_PODS_PER_NODE: Final = 6
_WORKLOADS: Final = 500
_OTHERS: Final = 300
_TAINT_SETS: Final = 500
_TOPOLOGY_KEYS: Final = 20
_NEW_NODE: Final = 1_000_000
_ZONE: Final = "topology.kubernetes.io/zone"

_REMARK: Final = 80
"""Maximum length of a printed remark."""

Spec = dict[str, Any]


def resource_names(count: int) -> Spec:
    """Request many extended resources."""
    requests = {f"example.com/r{i}": "1" for i in range(count)}
    return {"containers": [{"name": "c", "image": "app:1", "resources": {"requests": requests}}]}


def selector_keys(count: int) -> Spec:
    """Select many labels."""
    return {"nodeSelector": {f"example.com/k{i}": "v" for i in range(count)}}


def anti_affinity(count: int, keys: int, prefix: str = "example.com/key") -> Spec:
    """Has anti-affinity to all but some pods, with many terms over this many topology keys."""
    terms = [
        {
            "topologyKey": f"{prefix}{i % keys}",
            "labelSelector": {
                "matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"x{i}"]}]
            },
        }
        for i in range(count)
    ]
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {"affinity": {"podAntiAffinity": rule}}


def tolerations(count: int) -> Spec:
    """Tolerates many taints that no node has."""
    listed = [{"key": "t", "value": f"no{i}", "effect": "NoSchedule"} for i in range(count)]
    return {"tolerations": listed}


def host_ports(count: int) -> Spec:
    """Request many host ports."""
    ports = [{"containerPort": i, "hostPort": i} for i in range(1, count + 1)]
    return {"containers": [{"name": "c", "image": "app:1", "ports": ports}]}


def too_large() -> Spec:
    """Request more than any node has, except new ones."""
    requests = {"cpu": "65"}
    return {"containers": [{"name": "c", "image": "app:1", "resources": {"requests": requests}}]}


WAITING: Final[dict[str, Callable[[], Spec]]] = {
    "1,000 extended resources": lambda: resource_names(1000),
    f"{MAX_RESOURCE_NAMES} extended resources": lambda: resource_names(MAX_RESOURCE_NAMES),
    "4,000 nodeSelector keys": lambda: selector_keys(4000),
    f"{MAX_NODE_REQUIREMENTS} nodeSelector keys": lambda: selector_keys(MAX_NODE_REQUIREMENTS),
    "1,000 anti-affinity terms, a key each": lambda: anti_affinity(1000, 1000, "other/key"),
    f"{MAX_POD_TERMS} anti-affinity terms": lambda: anti_affinity(MAX_POD_TERMS, _TOPOLOGY_KEYS),
    "2,000 tolerations, 500 taint sets": lambda: tolerations(2000),
    f"{MAX_HOST_PORTS} host ports": lambda: host_ports(MAX_HOST_PORTS),
}
RUNNING: Final[dict[str, Callable[[], Spec]]] = {
    "runs: 1,000 extended resources": lambda: resource_names(1000),
    "runs: 1,000 terms, a key of its own each": lambda: anti_affinity(1000, 1000, "other/key"),
    "runs: 1,000 terms, 20 keys that nodes have": lambda: anti_affinity(1000, _TOPOLOGY_KEYS),
    "runs: 4,096 host ports": lambda: host_ports(4096),
}
_WAITING_KINDS: Final = 10_000
_IN_A_ROW: Final = 60
WAKING: Final[dict[str, Callable[[], Spec]]] = {
    f"waits: {_WAITING_KINDS:,} label sets, {_IN_A_ROW} nodes come": lambda: selector_keys(1),
    f"waits: {_WAITING_KINDS:,} too large ones, {_IN_A_ROW} nodes come": too_large,
}


def make_node(index: int, cpu: str = "64") -> Node:
    """Build a node with zone, hostname, and one of many lists of tolerated taints."""
    labels = {f"example.com/key{i}": f"v{index % 50}" for i in range(_TOPOLOGY_KEYS)}
    labels |= {"kubernetes.io/hostname": f"node-{index}", _ZONE: f"zone-{index % 10}"}
    taint = {"key": "t", "value": f"{index % _TAINT_SETS}", "effect": "PreferNoSchedule"}
    allocatable = {"cpu": cpu, "memory": "256Gi", "pods": "110"}
    return msgspec.convert(
        {
            "metadata": {"name": f"node-{index}", "labels": labels},
            "spec": {"taints": [taint]},
            "status": {"allocatable": allocatable},
        },
        Node,
    )


def make_pod(name: str, app: str, node_name: str = "", **spec: Any) -> PodInfo:
    """Build a pod of a workload."""
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "100m"}}}
    body = {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}},
        "spec": {
            "schedulerName": _PROFILE,
            "nodeName": node_name,
            "containers": [container],
            **spec,
        },
    }
    return pod_info(msgspec.convert(body, Pod))


class Bench:
    """A cluster and the decisions in it."""

    def __init__(self, nodes: int) -> None:
        profiles = Profiles(default_configuration(_PROFILE))
        running = [
            make_pod(f"running-{i}", f"app-{i % _WORKLOADS}", f"node-{i % nodes}")
            for i in range(_PODS_PER_NODE * nodes)
        ]
        objects = ClusterObjects()
        objects.nodes.extend(map(make_node, range(nodes)))
        objects.pods.extend(running)
        self._engine = profiles.load(objects).engine
        self._now = self._engine.core.now
        self._serial = 0

    def others(self) -> float:
        """Return the microseconds of a decision about a pod like the running ones."""
        times = []
        for _ in range(_OTHERS):
            self._serial += 1
            app = f"app-{self._serial % _WORKLOADS}"
            pod = make_pod(f"other-{self._serial}", app)
            start = thread_time_ns()
            self.decide(pod)
            times.append((thread_time_ns() - start) / 1000)
        return median(times[_OTHERS // 3 :])

    def decide(self, pod: PodInfo) -> str:
        """Schedule a new pod; return the rejection message, empty if it was bound."""
        self._engine.handle(ObjectSet("pods", pod), self._now)
        told = self._engine.handle(Decide(), self._now)
        return next((each.note for each in told if isinstance(each, RecordEvent)), "")

    def take_over(self, pod: PodInfo) -> str:
        """Add a running pod that another scheduler bound."""
        self._engine.handle(ObjectSet("pods", pod), self._now)
        self._engine.core.catch_up()
        return ""

    def let_wait(self, kinds: int, make_spec: Callable[[], Spec]) -> None:
        """Add pods with different labels that fit nowhere."""
        for number in range(kinds):
            self.decide(make_pod(f"waits-{number}", f"own-{number}", **make_spec()))

    def wake(self) -> tuple[float, float]:
        """Add nodes one after another and retry the pods after each.

        Returns:
            Milliseconds of the longest step, and of all the nodes' own steps.
        """
        nodes = [make_node(_NEW_NODE + number, cpu="66") for number in range(_IN_A_ROW)]
        times = [self._timed(ObjectSet("nodes", node)) for node in nodes]
        in_a_row = sum(times)
        while self._engine.core.queue.counts().unschedulable and self._engine.has_ready:
            times.append(self._timed(Decide()))
        return max(times), in_a_row

    def _timed(self, event: Event) -> float:
        start = thread_time_ns()
        self._engine.handle(event, self._now)
        return (thread_time_ns() - start) / 1e6


def measured(nodes: int) -> Iterator[Bound]:
    """Measure every case, each in a new cluster."""
    for case, make_spec in (*WAITING.items(), *RUNNING.items()):
        bench = Bench(nodes)
        before = bench.others()
        runs = case in RUNNING
        pod = make_pod("large", "large", "node-0" if runs else "", **make_spec())
        start = thread_time_ns()
        remark = (bench.take_over if runs else bench.decide)(pod)
        step_ms = (thread_time_ns() - start) / 1e6
        yield Bound(
            nodes=nodes,
            case=case,
            step_ms=step_ms,
            others=bench.others() / before,
            remark=remark[:_REMARK],
        )
    for case, make_spec in WAKING.items():
        bench = Bench(nodes)
        before = bench.others()
        bench.let_wait(_WAITING_KINDS, make_spec)
        step_ms, in_a_row = bench.wake()
        remark = f"together {in_a_row:.1f} ms"
        others = bench.others() / before
        yield Bound(nodes=nodes, case=case, step_ms=step_ms, others=others, remark=remark)


def longest_steps() -> Iterator[Bound]:
    """Run the cases of `bench.steps`, each with a cluster of the required size."""
    for name, (case, sizes) in CASES.items():
        # As in the daemon, the garbage collector does not scan the initial objects during a step.
        spare_collector()
        steps = list(case(*sizes))
        written = " and ".join(f"{size:,}" for size in sizes)
        remark = f"{written}: {len(steps):,} steps"
        yield Bound(nodes=0, case=name, step_ms=max(steps), others=None, remark=remark)


def holds(bound: Bound) -> bool:
    """Report whether both limits are met."""
    others = 1.0 if bound.others is None else bound.others
    return bound.step_ms <= STEP_LIMIT_MS and others <= OTHERS_LIMIT


@click.command()
@click.option("--nodes", default=5000, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="File for the results.")
def main(nodes: int, output: Path | None) -> None:
    """Measure every bound; exits with 1 if a limit is exceeded."""
    results = Results(Machine.here())
    broken = False
    print(f"{nodes} nodes; a step may take {STEP_LIMIT_MS} ms, others {OTHERS_LIMIT} times as long")
    for bound in chain(measured(nodes), longest_steps()):
        broken |= not holds(bound)
        results.bounds.append(bound)
        others = "" if bound.others is None else f"others x {bound.others:4.2f}"
        print(
            f"{bound.case:45} {bound.step_ms:8.1f} ms  {others:13}  {bound.remark}"
            + ("" if holds(bound) else "  BROKEN"),
            flush=True,
        )
    path = output or default_path(results.machine, "bounds")
    results.save(path)
    print(f"kept in {path}")
    raise SystemExit(int(broken))


if __name__ == "__main__":
    main()
