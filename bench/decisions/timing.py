"""Times decisions about the pods of one workload in a cluster in memory."""

import gc
from collections.abc import Iterator
from itertools import chain, repeat
from random import Random
from resource import RUSAGE_SELF, getrusage
from statistics import median
from time import thread_time_ns
from typing import Final

import msgspec

from bench import objects
from bench.latency import percentile
from bench.results import Decision
from bench.workload import Workload
from e2e.support.objects import Json
from scheduler.api.pods import PodInfo
from scheduler.config.load import default_configuration
from scheduler.engine.algorithm import ScheduleResult, SchedulingAlgorithm
from scheduler.offline.cluster import Profiles
from scheduler.offline.reading import objects_from_documents

_PODS_PER_NODE: Final = 6
_LARGE: Final = (50_000, 10)
"""From so many nodes on, so many pods on each."""
WARM_UP: Final = 100
"""Decisions that do not count: the first of a class looks at every node."""


def time_decisions(workload: Workload, node_count: int, decisions: int) -> Decision:
    """Decides about ``decisions`` pods where six (ten) like them run on each node already.

    A decision is what a scheduling cycle does between two pods: bring the snapshot up to date,
    choose a node, assume the pod there. It waits for nothing, so it is timed by the CPU time of
    this thread: what else the machine does is left out.
    """
    running = node_count * (_LARGE[1] if node_count >= _LARGE[0] else _PODS_PER_NODE)
    profiles = Profiles(default_configuration(objects.SCHEDULER_NAME))
    nodes = objects.nodes_of(workload.nodes, node_count)
    names = [node["metadata"]["name"] for node in nodes]
    factory = objects.PodFactory(workload.pods, names, "pod")
    bodies = chain(
        nodes,
        objects.namespaces_of(workload),
        objects.services_of(workload),
        _running(workload, factory, nodes, running),
    )
    cluster = profiles.load(objects_from_documents(zip(repeat(workload.name), bodies)))
    pods = _waiting_pods(factory, running, WARM_UP + decisions)
    algorithm = SchedulingAlgorithm(Random(0))
    framework = profiles.frameworks[objects.SCHEDULER_NAME]
    cache, snapshot = cluster.engine.core.cache, cluster.snapshot
    times: list[float] = []
    note = ""
    # As the daemon does once its caches are filled.
    gc.collect()
    gc.freeze()
    for pod in pods:
        start = thread_time_ns()
        cache.update_snapshot(snapshot)
        result = algorithm.schedule_pod(framework, pod, snapshot)
        if not isinstance(result, ScheduleResult):
            note = f"{pod.key} fits nowhere"
            break
        cache.assume_pod(pod.on_node(result.suggested_host))
        times.append((thread_time_ns() - start) / 1000)
    gc.unfreeze()
    counted = times[WARM_UP:]
    peak_kilobytes = getrusage(RUSAGE_SELF).ru_maxrss
    return Decision(
        workload=workload.name,
        nodes=node_count,
        pods=running,
        decisions=len(counted),
        median_us=median(counted) if counted else 0.0,
        p99_us=percentile(counted, 0.99),
        peak_memory_bytes=1024 * peak_kilobytes,
        note=note,
    )


def _running(
    workload: Workload, factory: objects.PodFactory, nodes: list[Json], count: int
) -> Iterator[Json]:
    for _, body in objects.running_pods(workload, factory, nodes, count):
        yield msgspec.json.decode(body)


def _waiting_pods(factory: objects.PodFactory, first: int, count: int) -> list[PodInfo]:
    bodies = (msgspec.json.decode(factory.waiting(first + each)) for each in range(count))
    return objects_from_documents(zip(repeat("waiting pods"), bodies)).pods
