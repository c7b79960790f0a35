"""Sums up the assumed pods of each node."""

from collections.abc import Iterable

from scheduler.api.nodes import occupied_by
from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.waiting_model import Assumed


def assumed_on(pods: Iterable[PodInfo]) -> tuple[Assumed, ...]:
    """Return assumed pods and their requests by node; `kubectl describe node` lacks them."""
    by_node: dict[str, list[PodInfo]] = {}
    for pod in pods:
        by_node.setdefault(pod.node_name, []).append(pod)
    return tuple(
        Assumed(name, tuple(sorted(pod.key for pod in on_it)), occupied_by(on_it))
        for name, on_it in sorted(by_node.items())
    )
