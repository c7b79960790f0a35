"""What the demo knows of its cluster, all of it from watching the API server."""

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from apistub.demo.load import SCHEDULER
from scheduler.api.objects import Node, Pod
from scheduler.api.quantity import milli_value

_REMEMBERED: Final = 50
_WINDOW_SECONDS: Final = 1.0


@dataclass(slots=True)
class NodeView:
    """A node and what runs on it."""

    name: str
    zone: str
    cpu_milli: int
    memory_bytes: int
    pod_limit: int
    is_cordoned: bool
    used_cpu_milli: int = 0
    used_memory_milli: int = 0
    pods: int = 0

    @property
    def is_overcommitted(self) -> bool:
        """Whether it was promised more than it has."""
        return (
            self.used_cpu_milli > self.cpu_milli
            or self.used_memory_milli > self.memory_bytes * 1000
            or self.pods > self.pod_limit
        )


@dataclass(slots=True)
class PodView:
    """A pod and how far it has come."""

    name: str
    scheduler: str
    cpu_milli: int
    memory_milli: int
    created_at: float
    node: str = ""
    bound_at: float = 0.0
    is_gated: bool = False
    is_rejected: bool = False
    was_held: bool = False
    """Whether it ever was gated or rejected: then how long it waited was not up to us."""
    message: str = ""
    """Why it has no node, in the scheduler's words."""

    @property
    def is_ours(self) -> bool:
        """Whether it is for our scheduler."""
        return self.scheduler == SCHEDULER


@dataclass(frozen=True, slots=True)
class Decision:
    """A pod that got its node."""

    pod: str
    node: str
    waited_seconds: float


@dataclass(slots=True)
class Counts:
    """Our pods by what they wait for."""

    bound: int = 0
    waiting: int = 0
    rejected: int = 0
    gated: int = 0


@dataclass(slots=True)
class Cluster:
    """Nodes and pods as the watches have shown them."""

    nodes: dict[str, NodeView] = field(default_factory=dict)
    pods: dict[str, PodView] = field(default_factory=dict)
    decisions: deque[Decision] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    broken: list[str] = field(default_factory=list)
    """What happened that must not happen."""
    first_bound_at: float | None = None
    last_bound_at: float = 0.0
    evicted: list[str] = field(default_factory=list)
    """Pods that had a node and are gone: only the scheduler deletes pods."""
    has_bound: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once a pod has a node."""
    _recent: deque[float] = field(default_factory=deque)

    def node_changed(self, node: Node) -> None:
        """Takes over a node that is new or different."""
        known = self.nodes.get(node.metadata.name)
        if known is not None:
            known.is_cordoned = node.spec.unschedulable
            return
        allocatable = node.status.allocatable
        self.nodes[node.metadata.name] = NodeView(
            name=node.metadata.name,
            zone=node.metadata.labels.get("topology.kubernetes.io/zone", ""),
            cpu_milli=milli_value(allocatable.get("cpu", "0")),
            memory_bytes=milli_value(allocatable.get("memory", "0")) // 1000,
            pod_limit=milli_value(allocatable.get("pods", "0")) // 1000,
            is_cordoned=node.spec.unschedulable,
        )

    def pod_changed(self, pod: Pod, now: float) -> None:
        """Takes over a pod that is new or different."""
        name, node = pod.metadata.name, pod.spec.node_name
        view = self.pods.get(name)
        if view is None:
            view = self.pods[name] = _pod_view(pod, now)
        view.is_gated = bool(pod.spec.scheduling_gates)
        if node and node != view.node:
            self._bound(view, node, now)
        scheduled = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        view.is_rejected = scheduled is not None and scheduled.reason == "Unschedulable"
        view.was_held |= view.is_gated or view.is_rejected
        view.message = scheduled.message if scheduled is not None else ""

    def pod_gone(self, name: str) -> None:
        """Forgets a pod that is deleted."""
        view = self.pods.pop(name, None)
        if view is not None and view.node in self.nodes:
            self._account(self.nodes[view.node], view, -1)
            self.evicted.append(name)

    def counts(self) -> Counts:
        """How many of our pods wait for what."""
        counts = Counts()
        for pod in self.pods.values():
            if not pod.is_ours:
                continue
            if pod.node:
                counts.bound += 1
            elif pod.is_gated:
                counts.gated += 1
            elif pod.is_rejected:
                counts.rejected += 1
            else:
                counts.waiting += 1
        return counts

    def pending(self) -> list[PodView]:
        """Our pods that have no node for a known reason."""
        return [
            pod
            for pod in self.pods.values()
            if pod.is_ours and not pod.node and (pod.is_gated or pod.is_rejected)
        ]

    def pods_per_second(self, now: float) -> int:
        """How many pods got a node within the last second."""
        while self._recent and self._recent[0] < now - _WINDOW_SECONDS:
            self._recent.popleft()
        return len(self._recent)

    def without_node(self, expected: Iterable[str]) -> list[str]:
        """Which of these pods never got a node; those that were evicted had one."""
        pods, evicted = self.pods, set(self.evicted)
        return [
            name
            for name in sorted(expected)
            if name not in evicted and (name not in pods or not pods[name].node)
        ]

    def _bound(self, view: PodView, node: str, now: float) -> None:
        if view.node:
            self.broken.append(f"pod {view.name} moved from node {view.node} to {node}")
        if not view.is_ours:
            self.broken.append(f"pod {view.name} of {view.scheduler} was bound to {node}")
        view.node, view.bound_at = node, now
        if self.first_bound_at is None:
            self.first_bound_at = now
        self.last_bound_at = now
        self.has_bound.set()
        self._recent.append(now)
        self.decisions.append(Decision(view.name, node, now - view.created_at))
        host = self.nodes.get(node)
        if host is None:
            self.broken.append(f"pod {view.name} was bound to node {node}, which does not exist")
            return
        self._account(host, view, 1)
        if host.is_overcommitted:
            self.broken.append(f"node {node} was promised more than it has")

    @staticmethod
    def _account(host: NodeView, view: PodView, sign: int) -> None:
        host.used_cpu_milli += sign * view.cpu_milli
        host.used_memory_milli += sign * view.memory_milli
        host.pods += sign


def _pod_view(pod: Pod, now: float) -> PodView:
    requests = [container.resources.requests for container in pod.spec.containers]
    return PodView(
        name=pod.metadata.name,
        scheduler=pod.spec.scheduler_name,
        cpu_milli=sum(milli_value(request.get("cpu", "0")) for request in requests),
        memory_milli=sum(milli_value(request.get("memory", "0")) for request in requests),
        created_at=now,
    )
