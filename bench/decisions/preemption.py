"""``python -m bench.decisions.preemption``: milliseconds per preemption among full nodes."""

from collections.abc import Iterator
from random import Random
from statistics import median
from time import thread_time_ns
from typing import Any, Final

import click

from scheduler.api.pods import PodInfo
from scheduler.framework.runtime import Framework
from scheduler.offline.cluster import Profiles
from scheduler.offline.reading import objects_from_documents

ZONES: Final = 10
WORKLOADS: Final = 20
"""Running pods belong to this many workloads; budgets protect half of those."""

Json = dict[str, Any]


def _term(key: str) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "app-0"}}}


def _apart(key: str) -> Json:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"podAntiAffinity": {required: [_term(key)]}}}


PREEMPTORS: Final[dict[str, Json]] = {
    "plain": {},
    "spread": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 5000,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "app-0"}},
            }
        ]
    },
    "anti-affinity": _apart("kubernetes.io/hostname"),
    "ports": {},
}


@click.command()
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods-per-node", default=20, show_default=True)
@click.option("--decisions", default=20, show_default=True)
@click.option("--all-nodes", is_flag=True, help="Every node is a candidate.")
def main(*, nodes: int, pods_per_node: int, decisions: int, all_nodes: bool) -> None:
    """Time preemption decisions, and what nominated nodes cost other pods."""
    for name in PREEMPTORS:
        first, times, note = _time(name, nodes, pods_per_node, decisions, all_nodes=all_nodes)
        print(f"{name}: first {first:.1f} ms, then {median(times):.1f} ms; {note}", flush=True)
    for nominated in (0, nodes // 10):
        cost = _time_waiting(nodes, nominated, decisions * 20)
        print(f"plain pod beside {nominated} nominated nodes: {cost:.0f} us", flush=True)


def _time(
    name: str, nodes: int, pods_per_node: int, decisions: int, *, all_nodes: bool
) -> tuple[float, list[float], str]:
    profiles = Profiles(None, tries_all_nodes=all_nodes)
    cluster = profiles.load(
        objects_from_documents((name, each) for each in _objects(name, nodes, pods_per_node))
    )
    framework = next(iter(profiles.frameworks.values()))
    pods = [_preemptor(name, i) for i in range(decisions + 1)]
    times, note = [], ""
    for pod in pods:
        elapsed, note = _preempt(framework, pod, cluster.snapshot)
        times.append(elapsed)
    return times[0], times[1:], note


def _preempt(framework: Framework, pod: PodInfo, snapshot: Any) -> tuple[float, str]:
    found = framework.find_nodes_that_fit(pod, snapshot)
    diagnosis = found.diagnosis(snapshot)
    start = thread_time_ns()
    result, status = framework.run_post_filter_plugins(found.state, pod, snapshot, diagnosis)
    elapsed = (thread_time_ns() - start) / 1e6
    if result is None or not result.victims:
        return elapsed, status.message
    return elapsed, f"{len(result.victims)} victims, {len(result.candidates)} candidates"


def _time_waiting(nodes: int, nominated: int, decisions: int) -> float:
    """The time a plain pod takes that fits on nodes to which others are nominated."""
    profiles = Profiles(None)
    objects = _objects("plain", nodes, 2)
    cluster = profiles.load(objects_from_documents(("bench", each) for each in objects))
    framework = next(iter(profiles.frameworks.values()))
    for i in range(nominated):
        cluster.nominator.nominate(_preemptor("plain", i, cpu="100m"), f"node-{i * 10}")
    waiting = [_pod_info(_pod(f"waiting-{i}", {}, 0, "100m")) for i in range(decisions)]
    random, times = Random(0), []
    for pod in waiting:
        start = thread_time_ns()
        cluster.engine.core.cache.update_snapshot(cluster.snapshot)
        found = framework.find_nodes_that_fit(pod, cluster.snapshot, cluster.nominator)
        best = framework.best_nodes(found, pod, cluster.snapshot)
        row = int(best.rows[int(random.random() * len(best.rows))])
        cluster.engine.core.cache.assume_pod(pod.on_node(cluster.snapshot.table.names[row]))
        times.append((thread_time_ns() - start) / 1e3)
    return median(times)


def _objects(name: str, nodes: int, pods_per_node: int) -> Iterator[Json]:
    for i in range(nodes):
        labels = {
            "kubernetes.io/hostname": f"node-{i}",
            "topology.kubernetes.io/zone": f"zone-{i % ZONES}",
        }
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{i}", "labels": labels},
            "status": {"allocatable": {"cpu": "2", "memory": "16Gi", "pods": "110"}},
        }
    for i in range(0, WORKLOADS, 2):
        yield {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"pdb-{i}", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": f"app-{i}"}}},
            "status": {"disruptionsAllowed": i % 3},
        }
    random = Random(0)
    for i in range(nodes * pods_per_node):
        pod = _pod(
            f"running-{i}", {"app": f"app-{i % WORKLOADS}"}, random.choice((0, 1, 2)), "100m"
        )
        pod["spec"]["nodeName"] = f"node-{i % nodes}"
        if name == "ports" and i < nodes:
            pod["spec"]["containers"][0]["ports"] = [{"hostPort": 80, "containerPort": 80}]
        minutes, seconds = divmod(i % 3600, 60)
        pod["status"] = {"startTime": f"2026-01-01T00:{minutes:02}:{seconds:02}Z"}
        yield pod


def _preemptor(name: str, number: int, cpu: str = "500m") -> PodInfo:
    pod = _pod(f"preemptor-{number}", {"app": "important"}, 1000, cpu)
    pod["spec"].update(PREEMPTORS[name])
    if name == "ports":
        pod["spec"]["containers"][0]["ports"] = [{"hostPort": 80, "containerPort": 80}]
    return _pod_info(pod)


def _pod(name: str, labels: dict[str, str], priority: int, cpu: str) -> Json:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [container], "priority": priority},
    }


def _pod_info(body: Json) -> PodInfo:
    return objects_from_documents([("bench", body)]).pods[0]


if __name__ == "__main__":
    main()
