"""Finds pods of other schedulers that take room on the profile's own nodes."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from scheduler.api.pods import PodInfo
from scheduler.api.resources import PODS
from scheduler.kernel.answers.checks import EveryCheck
from scheduler.kernel.answers.model import ForeignPods
from scheduler.kernel.framework.obstacles import EXAMPLES, PodOnNode
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.plugins.node_ownership import NodeOwnership
from scheduler.kernel.plugins.node_resources_fit import NodeResourcesFit
from scheduler.kernel.snapshot import Snapshot

_PLACES: Final = {PODS: 1}


def foreign_pods(
    framework: Framework, every: EveryCheck, own_names: Collection[str]
) -> tuple[ForeignPods, ...]:
    """Return by scheduler the pods without which a pod that fits nowhere would fit.

    Nothing for a profile without NodeOwnership. Candidates are nodes that only NodeResourcesFit
    rejects; a node counts if pods of other schedulers together request the missing amount.

    Args:
        framework: the framework of the pod's profile.
        every: the verdicts of all filters on the pod.
        own_names: the names of the profiles of this scheduler.

    Cost: O(pods on these nodes).
    """
    if NodeOwnership.NAME not in framework.plugins.by_name:
        return ()
    snapshot, wanted = every.world, every.pod.shape.requests
    taken: dict[str, list[PodInfo]] = {}
    for row in every.rejected_by_none_but(NodeResourcesFit.NAME).tolist():
        foreign = [pod for pod in _movable(snapshot, row) if _is_foreign(pod, own_names)]
        if foreign and _would_do(every.pod, snapshot, row, _sum(foreign)):
            for pod in foreign:
                taken.setdefault(pod.spec.scheduler_name, []).append(pod)
    by_scheduler = [_foreign_pods(name, pods, wanted) for name, pods in taken.items()]
    return tuple(sorted(by_scheduler, key=lambda each: (-each.nodes, each.scheduler_name)))


def _movable(snapshot: Snapshot, row: int) -> Iterator[PodInfo]:
    """Return the pods on a node that are not tied to it (see `PodInfo.is_tied_to_node`)."""
    pods = snapshot.info(row).pods.values()
    return (pod for pod in pods if not pod.is_tied_to_node)


def _is_foreign(pod: PodInfo, own_names: Collection[str]) -> bool:
    return pod.spec.scheduler_name not in own_names


def _sum(pods: Iterable[PodInfo]) -> Counter[str]:
    """Sum the requests of pods, and their number as the resource `pods`."""
    total: Counter[str] = Counter()
    for pod in pods:
        total.update(pod.shape.occupied)
        total.update(_PLACES)
    return total


def _would_do(pod: PodInfo, snapshot: Snapshot, row: int, more: Counter[str]) -> bool:
    """Return whether a node with `more` free resources has room for a pod."""
    table = snapshot.table
    if table.max_pods[row] - table.pod_count[row] + more[PODS] < 1:
        return False
    for name, amount in pod.shape.requests.items():
        column = table.resources.get(name)
        free = 0.0
        if column is not None:
            free = table.allocatable[column, row] - table.requested[column, row]
        if amount > 0 and free + more[name] < amount:
            return False
    return True


def _foreign_pods(name: str, pods: list[PodInfo], wanted: Collection[str]) -> ForeignPods:
    """Build the answer about one scheduler's pods; `wanted` are the pod's requested resources."""
    total = _sum(pods)
    return ForeignPods(
        name,
        len(pods),
        len({pod.node_name for pod in pods}),
        {each: total[each] for each in wanted if total[each]},
        tuple(PodOnNode(pod.key, pod.node_name) for pod in pods[:EXAMPLES]),
    )
