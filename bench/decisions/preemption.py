"""``python -m bench.decisions.preemption``: milliseconds per preemption among full nodes."""

import sys
from collections.abc import Iterator
from random import Random
from statistics import median
from time import thread_time_ns
from typing import Any, Final

import click

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.results import PostFilterResult
from scheduler.kernel.framework.runtime import Framework
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import objects_from_documents

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


LIMITS_MS: Final = {"plain": 20.0, "ports": 20.0, "spread": 60.0, "anti-affinity": 60.0}
"""What a decision may take among 5,000 full nodes of 20 pods, every one of them a candidate."""
NOMINATED_LIMIT: Final = 2.0
"""So many times as long a waiting pod may take beside nominated nodes."""
NOMINATED_CPU: Final = ("100m", "1750m")
"""What they ask for on their nodes of 2: there is room beside the first."""


@click.command()
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods-per-node", default=20, show_default=True)
@click.option("--decisions", default=20, show_default=True)
@click.option("--all-nodes/--some-nodes", default=True, help="Is every node a candidate?")
def main(*, nodes: int, pods_per_node: int, decisions: int, all_nodes: bool) -> None:
    """Time preemption decisions, and what nominated nodes cost other pods; 1 if it is too long."""
    broken = False
    for name, limit in LIMITS_MS.items():
        first, times, note = _time(name, nodes, pods_per_node, decisions, all_nodes=all_nodes)
        broken |= median(times) > limit
        print(
            f"{name}: first {first:.1f} ms, then {median(times):.1f} ms, at most {max(times):.1f}; "
            f"{_verdict(median(times), limit, 'ms')}; {note}",
            flush=True,
        )
    nominated = nodes // 10
    for cpu in NOMINATED_CPU:
        alone, beside = _time_waiting(nodes, nominated, cpu, decisions * 20)
        broken |= beside > NOMINATED_LIMIT * alone
        print(
            f"plain pod: {alone:.0f} us, beside {nominated} nodes with {cpu} nominated "
            f"{beside:.0f} us; {_verdict(beside / alone, NOMINATED_LIMIT, 'x')}",
            flush=True,
        )
    sys.exit(broken)


def _verdict(value: float, limit: float, unit: str) -> str:
    return f"{'kept' if value <= limit else 'BROKEN'}: {value:.3g} of {limit:g} {unit}"


def _time(
    name: str, nodes: int, pods_per_node: int, decisions: int, *, all_nodes: bool
) -> tuple[float, list[float], str]:
    profiles = Profiles(None, tries_all_nodes=all_nodes)
    cluster = profiles.load(
        objects_from_documents((name, each) for each in _objects(name, nodes, pods_per_node))
    )
    framework, cache = next(iter(profiles.frameworks.values())), cluster.engine.core.cache
    times, note = [], ""
    for number in range(decisions + 1):
        pod = _preemptor(name, number)
        start = thread_time_ns()
        cache.update_snapshot(cluster.snapshot)
        result, message = _preempt(framework, pod, cluster.snapshot)
        times.append((thread_time_ns() - start) / 1e6)
        if result is None:
            return times[0], times, message
        # Who was chosen leaves, so that each decision is on another cluster.
        for victim in result.victims:
            cache.remove_pod(victim)
        cache.assume_pod(pod.on_node(result.nominated_node_name or ""))
        note = f"{len(result.victims)} victims, {len(result.candidates)} candidates"
    return times[0], times[1:], note


def _preempt(
    framework: Framework, pod: PodInfo, snapshot: Any
) -> tuple[PostFilterResult | None, str]:
    found = framework.filtering.find_nodes_that_fit(pod, snapshot)
    diagnosis = found.diagnosis(snapshot)
    result, status = framework.run_post_filter_plugins(found.state, pod, snapshot, diagnosis)
    return (result if result is not None and result.victims else None), status.message


def _time_waiting(nodes: int, nominated: int, cpu: str, decisions: int) -> tuple[float, float]:
    """Microseconds a plain pod takes, alone and beside nominated ones; they take turns."""
    alone, beside = _waiting(nodes, 0, cpu, decisions), _waiting(nodes, nominated, cpu, decisions)
    times = list(zip(alone, beside, strict=True))
    return median(each for each, _ in times), median(each for _, each in times)


def _waiting(nodes: int, nominated: int, cpu: str, decisions: int) -> Iterator[float]:
    profiles = Profiles(None)
    objects = _objects("plain", nodes, 2)
    cluster = profiles.load(objects_from_documents(("bench", each) for each in objects))
    framework = next(iter(profiles.frameworks.values()))
    for i in range(nominated):
        cluster.nominator.nominate(_preemptor("plain", i, cpu=cpu), f"node-{i * 10}")
    waiting = [_pod_info(_pod(f"waiting-{i}", {}, 0, "100m")) for i in range(decisions)]
    random = Random(0)
    for pod in waiting:
        start = thread_time_ns()
        cluster.engine.core.cache.update_snapshot(cluster.snapshot)
        found = framework.filtering.find_nodes_that_fit(pod, cluster.snapshot, cluster.nominator)
        best = framework.scoring.best_nodes(found, pod, cluster.snapshot)
        row = int(best.rows[int(random.random() * len(best.rows))])
        cluster.engine.core.cache.assume_pod(pod.on_node(cluster.snapshot.table.names[row]))
        yield (thread_time_ns() - start) / 1e3


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
