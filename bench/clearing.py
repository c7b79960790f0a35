"""Requests that a preemption sends; for the wall, which only writes.

The node's least important pods are evicted until the pod's CPU fits: a condition, a deletion and an
event each. The preemptor gets an event and a nominatedNodeName.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from bench.objects import SCHEDULER_NAME
from e2e.support.api import Api, Call
from e2e.support.objects import Json
from scheduler.api.quantity import milli_value

TIME: Final = "2020-01-01T00:00:00.000000Z"
"""Timestamp of events that no program reads."""

_PATCH: Final = "application/strategic-merge-patch+json"


class FullNodes:
    """Nodes and their pods.

    Attributes:
        is_needed: whether any waiting pod may preempt.
    """

    def __init__(self, nodes: Iterable[Json], running: Iterable[Json]) -> None:
        self._free = {
            node["metadata"]["name"]: milli_value(node["status"]["allocatable"]["cpu"])
            for node in nodes
        }
        self._pods: dict[str, list[Json]] = defaultdict(list)
        for pod in sorted(running, key=_priority, reverse=True):
            name = pod["spec"]["nodeName"]
            self._pods[name].append(pod)
            self._free[name] -= _cpu(pod)

    @classmethod
    async def read(cls, api: Api, waiting: Iterable[Json]) -> "FullNodes | None":
        """List the running pods; return None if no waiting pod may preempt."""
        if not any(map(_priority, waiting)):
            return None
        running = await api.list_items("/api/v1/pods?fieldSelector=spec.nodeName%21%3D")
        return cls(await api.list_items("/api/v1/nodes"), running)

    def calls(self, pod: Json, node: str, *, events: bool) -> Iterator[Call]:
        """Yield the requests that free the pod's CPU on a node."""
        victims = list(self._victims(pod, node))
        if victims and events:
            yield event_call(
                pod, "FailedScheduling", "Scheduling", "0 nodes are available", "Warning"
            )
        if victims:
            condition = _condition("PodScheduled", "False", "Unschedulable")
            status = {"conditions": [condition], "nominatedNodeName": node}
            yield Call("PATCH", f"{_path(pod)}/status", {"status": status}, _PATCH)
        for victim in victims:
            condition = _condition("DisruptionTarget", "True", "PreemptionByScheduler")
            yield Call(
                "PATCH", f"{_path(victim)}/status", {"status": {"conditions": [condition]}}, _PATCH
            )
            yield Call("DELETE", _path(victim))
            if events:
                yield event_call(victim, "Preempted", "Preempting", f"Preempted on node {node}")

    def _victims(self, pod: Json, node: str) -> Iterator[Json]:
        there = self._pods[node]
        self._free[node] -= _cpu(pod)
        while self._free[node] < 0 and there and _priority(there[-1]) < _priority(pod):
            victim = there.pop()
            self._free[node] += _cpu(victim)
            yield victim


def event_call(pod: Json, reason: str, action: str, note: str, kind: str = "Normal") -> Call:
    """Return the request that creates an event about a pod."""
    meta = pod["metadata"]
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{meta['name']}.{reason.lower()}", "namespace": meta["namespace"]},
        "eventTime": TIME,
        "reportingController": SCHEDULER_NAME,
        "reportingInstance": SCHEDULER_NAME,
        "action": action,
        "reason": reason,
        "regarding": {
            "kind": "Pod",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "apiVersion": "v1",
        },
        "note": note,
        "type": kind,
    }
    return Call("POST", f"/apis/events.k8s.io/v1/namespaces/{meta['namespace']}/events", body)


def _condition(kind: str, status: str, reason: str) -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": "for the wall"}


def _path(pod: Json) -> str:
    meta = pod["metadata"]
    return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"


def _priority(pod: Json) -> int:
    return int(pod["spec"].get("priority", 0))


def _cpu(pod: Json) -> int:
    requests = (each.get("resources", {}).get("requests", {}) for each in pod["spec"]["containers"])
    return sum(milli_value(each.get("cpu", "0")) for each in requests)
