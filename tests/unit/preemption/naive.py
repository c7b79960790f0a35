"""Preemption once more, node by node and pod by pod, each time on a cluster built anew."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scheduler.api.disruption_budgets import DisruptionBudget
from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.config.load import default_configuration
from scheduler.daemon.bootstrap import FrameworkBuilder
from scheduler.kernel.cache import Cache
from scheduler.kernel.framework.status import SUCCESS, Code, Status
from scheduler.kernel.snapshot import Snapshot

_FRAMEWORK = FrameworkBuilder(lambda: 0.0, class_cache_bytes=0).build(
    default_configuration("stowage")
)["stowage"]


class World(NamedTuple):
    """A cluster as plain lists; waiting pods are nominated to the nodes they name."""

    nodes: Sequence[Node]
    pods: Sequence[PodInfo]
    budgets: Sequence[DisruptionBudget]
    nominated: Sequence[tuple[PodInfo, str]]


class Evicted(NamedTuple):
    victims: list[str]
    violations: int


def placed(nodes: Iterable[Node], pods: Iterable[PodInfo]) -> tuple[Cache, Snapshot]:
    """A cluster as the engine keeps it."""
    cache, snapshot = Cache(), Snapshot()
    for node in nodes:
        cache.set_node(node)
    for pod in pods:
        cache.add_pod(pod)
    cache.update_snapshot(snapshot)
    return cache, snapshot


def verdict(world: World, pods: Iterable[PodInfo], pod: PodInfo, node: str) -> Status:
    """What the filters say about one node if exactly these pods ran."""
    _, snapshot = placed(world.nodes, pods)
    found = _FRAMEWORK.filtering.find_nodes_that_fit(pod, snapshot)
    if snapshot.table.row_of[node] in found.feasible_rows():
        return SUCCESS
    return found.diagnosis(snapshot).status_of(node)


def verdict_with_nominated(
    world: World, pods: Sequence[PodInfo], pod: PodInfo, node: str
) -> Status:
    """The same, first with those that are nominated to the node, then without."""
    there = [
        n.on_node(where)
        for n, where in world.nominated
        if where == node and n.priority >= pod.priority and n.uid != pod.uid
    ]
    if there:
        status = verdict(world, [*pods, *there], pod, node)
        if not status.is_success:
            return status
    return verdict(world, pods, pod, node)


def candidates(world: World, pod: PodInfo) -> tuple[dict[str, Evicted], str]:
    """Every node that could be cleared, and the message where there is none."""
    found: dict[str, Evicted] = {}
    counts: Counter[str] = Counter()
    for node in (n.metadata.name for n in world.nodes):
        status = verdict_with_nominated(world, world.pods, pod, node)
        if status.code is not Code.UNSCHEDULABLE:
            counts["Preemption is not helpful for scheduling"] += 1
            continue
        outcome = _select_victims(world, pod, node)
        if isinstance(outcome, Evicted):
            found[node] = outcome
        else:
            counts.update(outcome)
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return found, f"0/{len(world.nodes)} nodes are available: {listed}."


def _select_victims(world: World, pod: PodInfo, node: str) -> Evicted | tuple[str, ...]:
    lower = [p for p in world.pods if p.node_name == node and p.priority < pod.priority]
    if not lower:
        return ("No preemption victims found for incoming pod",)
    lower.sort(key=lambda p: (-p.priority, p.pod.start_time or "now"))
    running = [p for p in world.pods if p not in lower]
    status = verdict_with_nominated(world, running, pod, node)
    if not status.is_success:
        return status.reasons
    violating = _violating(world.budgets, lower)
    victims: list[PodInfo] = []
    violations = 0
    for group, costs in ((violating, 1), ([p for p in lower if p not in violating], 0)):
        for candidate in group:
            if verdict_with_nominated(world, [*running, candidate], pod, node).is_success:
                running.append(candidate)
            else:
                victims.append(candidate)
                violations += costs
    return Evicted([p.key for p in lower if p in victims], violations)


def _violating(budgets: Sequence[DisruptionBudget], pods: Sequence[PodInfo]) -> list[PodInfo]:
    left = [budget.disruptions_allowed for budget in budgets]
    violating = []
    for pod in pods:
        violates = False
        for i, budget in enumerate(budgets):
            concerns = (
                bool(pod.labels)
                and budget.namespace == pod.namespace
                and bool(budget.selector.requirements)
                and budget.selector.matches(pod.labels)
            )
            if concerns and pod.name not in budget.disrupted_pods:
                left[i] -= 1
                violates = violates or left[i] < 0
        if violates:
            violating.append(pod)
    return violating
