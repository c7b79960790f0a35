"""Invariants of placements, independent of the scheduler."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from e2e.support.audit import AuditEvent
from e2e.support.objects import Json
from scheduler.api.quantity import ceil, milli_value, parse


def overcommitted_nodes(nodes: Iterable[Json], pods: Iterable[Json]) -> dict[str, str]:
    """Return the nodes whose pods request more than is allocatable, with the excess."""
    used: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if not node:
            continue
        used[node]["pods"] += 1
        for container in pod["spec"]["containers"]:
            requests = container.get("resources", {}).get("requests", {})
            used[node]["cpu"] += milli_value(requests.get("cpu", "0"))
            used[node]["memory"] += ceil(parse(requests.get("memory", "0")))
    problems = {}
    for node in nodes:
        name, allocatable = node["metadata"]["name"], node["status"]["allocatable"]
        has = {
            "pods": ceil(parse(allocatable["pods"])),
            "cpu": milli_value(allocatable["cpu"]),
            "memory": ceil(parse(allocatable["memory"])),
        }
        over = {k: used[name][k] - has[k] for k in has if used[name][k] > has[k]}
        if over:
            problems[name] = str(over)
    return problems


def bindings_by_pod(events: Iterable[AuditEvent]) -> Counter[str]:
    """Return the number of successful bindings of each pod, by `namespace/name`."""
    return Counter(
        f"{event.object_ref.namespace}/{event.object_ref.name}"
        for event in events
        if event.is_binding() and event.code == 201
    )
